"""Everything through which the outside world speaks: notices, OCI hooks, scheduler files."""
