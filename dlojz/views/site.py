"""`site`: what one must know of the cluster before the first job, from the site's file: partitions, cores, queues, storage."""

from __future__ import annotations

from ..system import sites
from ..ui import page, words
from ..ui.page import View

EXAMPLE = "jean-zay"  # shown where jobs go to no cluster
KINDS = ["partition", "nodes", "GPUs per node", "GPU", "cores per GPU", "memory per core", "links", "longest job"]
QUEUES = ["partition", "QoS", "longest job", "GPUs at most"]
STORAGE = ["storage", "path", "for", "quota", "files", "lifetime"]


def site(name: str = "") -> View:
    """The site in use, or that of this name. Where jobs go to no cluster, it shows one of the kit's as an example.

    Raises UsageError.
    """
    chosen = sites.load(name) if name else sites.current()
    example = not name and chosen.launcher != "slurm"
    if example:
        chosen = sites.load(EXAMPLE)
    title = f"an example, for your jobs go to no cluster: {chosen}" if example else str(chosen)
    partitions = chosen.known_partitions()
    tables = [table for table in (_kinds(partitions), _queues(partitions), _storage(chosen)) if table[1]]
    said = _sentences(chosen, partitions)
    text = "\n".join([title, *(f"\n{page.table(*table)}" for table in tables), "", *said])
    return View(title, text, page.headline(title[0].upper() + title[1:]) + "".join(page.table_html(*table) for table in tables)
                + "".join(map(page.quiet, said)))


def _kinds(partitions: dict[str, sites.Partition]) -> tuple[list[str], list[list[str]]]:
    rows = [[name, f"{one.nodes or ''}", f"{one.gpus_per_node or ''}", one.gpu, f"{one.cores_per_gpu or ''}", one.memory_per_core,
             one.links, _limit(one.max_time)] for name, one in partitions.items()]
    return _used(KINDS, rows)


def _queues(partitions: dict[str, sites.Partition]) -> tuple[list[str], list[list[str]]]:
    rows = [[name, qos.name + " (default)" * (qos.name == one.default_qos), _limit(qos.max_time), f"{qos.max_gpus or ''}"]
            for name, one in partitions.items() for qos in one.qos.values()]
    return _used(QUEUES, rows)


def _storage(chosen: sites.Site) -> tuple[list[str], list[list[str]]]:
    rows = [[one.name, one.path, one.holds, one.quota, one.inodes, one.lifetime] for one in chosen.storage.values()]
    return _used(STORAGE, rows)


def _used(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Without the columns that no row fills."""
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    return [head[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _limit(seconds: int) -> str:
    return f"{seconds / 3600:g} h" if seconds >= 3600 else words.seconds(seconds) if seconds else ""


def _sentences(chosen: sites.Site, partitions: dict[str, sites.Partition]) -> list[str]:
    gpus = f"{chosen.gpus} GPU{'s' * (chosen.gpus != 1)}"
    said = [f"A job that does not say more gets {gpus} for {words.seconds(chosen.time)}"
            + (f" in the partition {chosen.partition}." if chosen.partition else ".")]
    if (own := partitions.get(chosen.partition or next(iter(partitions), ""))) and own.cores_per_gpu:
        said.append(f"A GPU comes with {own.cores_per_gpu} cores there: more of them leave GPUs idle that nobody else can use.")
    if chosen.account or chosen.account_variable:
        said.append(f"The hours are taken from the account {chosen.account or '$' + chosen.account_variable}.")
    if chosen.modules:
        said.append(f"A job loads {', '.join(chosen.modules)} before it starts Python.")
    return [*said, f"Jobs use the reservation {chosen.reservation}." if chosen.reservation else "There is no reservation."]
