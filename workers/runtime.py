"""Process settings that a worker on CPUs needs before it starts."""

from __future__ import annotations

# glibc hands temporaries above 128 KiB to mmap and returns them after each use, so that a forward over several replicas
# spends a fifth of its time on page faults. 32 MiB is the largest threshold every glibc accepts.
CPU_ENVIRONMENT: dict[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(512 * 2**20),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}
