"""The live container: engines, OCI runtime, shim, CRIU, capture and restore."""
