"""Traces of torch.profiler: read, taken apart, and diagnosed, without TensorBoard and without a network.

    trace = traces.read("runs/profile-001")       a run's folder or a file: trace.json.gz, *.pt.trace.json
    facts = traces.analyse(trace)                 who worked, who waited, for whom: `facts.Facts`
    print(traces.diagnose(trace))                 one of six patterns or why it is not told, evidence, two things to try

Reading takes about 5 s and 0.25 GB for 200 MB of JSON.
"""

from .diagnosis import PATTERNS, Diagnosis, analyse, diagnose
from .facts import Facts
from .reading import Trace, read

__all__ = ["PATTERNS", "Diagnosis", "Facts", "Trace", "analyse", "diagnose", "read"]
