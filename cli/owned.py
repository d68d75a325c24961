"""spotrun's own options of `run`, before the image like all others; a module without imports."""

from typing import Final

PLACE: Final = {
    "--store": ("PLACE", "where its snapshots go: a path, or s3://BUCKET/PREFIX, …"),
    "--key-file": ("FILE", "the file with the secret of an encrypted store"),
    "--format": ("table|json", "for people or programs; json needs --detach"),
    "--engine": (
        "docker|podman|auto",
        "auto: Docker if it runs and `spotrun install` told it, else Podman",
    ),
}
"""For all jobs, with what they take and mean."""
JOB: Final = "--job"
VALUES: Final = {
    JOB: ("NAME", "go on from its newest snapshot, wherever it was, or begin; look after it"),
    "--scheduler": (
        "auto|slurm|…",
        "name the job after the one it has in Slurm, SkyPilot, HTCondor or AWS Batch",
    ),
    "--every": ("TIME|auto", "save it so often; auto: as the store's history advises"),
    "--max-overhead": ("SHARE", "of its time that it may be frozen for that, with auto: 1%"),
    "--upload-limit": ("SIZE", "bytes a second that this may take from the line: 10m"),
    "--keep-last": ("N", "of its snapshots keep as `spotrun prune` does; default: all"),
    "--keep-hourly": ("N", "likewise"),
    "--keep-daily": ("N", "likewise"),
    "--keep-weekly": ("N", "likewise"),
    "--probe": (
        "CHECK",
        "proves it well after a restore: tcp:PORT, log:REGEX, healthcheck, a command",
    ),
    "--resume-cmd": ("COMMAND", "what starts it where only its files could be brought back"),
    "--notice-command": ("COMMAND", "ends with 0 when this host is about to go"),
    "--grace": ("TIME", "from SIGTERM to the end of this host: 30s"),
}
"""For jobs that come back; they are of no use without a name."""
FLAGS: Final = {
    "--fresh": "begin it anew, and keep what is stored",
    "--takeover": "the host that has it is dead: do not wait for it",
}
COMING_BACK: Final = frozenset((*VALUES, *FLAGS))
ALL: Final = COMING_BACK | PLACE.keys()
