"""Snapshots outside a store: as artefacts of an OCI registry, and as archives of engines."""
