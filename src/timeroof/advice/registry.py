"""All rules, by code. A code is never given to another pattern."""

from __future__ import annotations

from timeroof.advice.rule import Rule
from timeroof.advice.rules.above_roof import AboveRoof
from timeroof.advice.rules.asleep import Asleep
from timeroof.advice.rules.cache_resident import CacheResident
from timeroof.advice.rules.elementwise_chain import ElementwiseChain
from timeroof.advice.rules.exposed_communication import ExposedCommunication
from timeroof.advice.rules.float64 import Float64
from timeroof.advice.rules.fresh_memory import FreshMemory
from timeroof.advice.rules.host_bound import HostBound
from timeroof.advice.rules.host_waits import HostWaits
from timeroof.advice.rules.layout_traffic import LayoutTraffic
from timeroof.advice.rules.low_bandwidth import LowBandwidth
from timeroof.advice.rules.low_compute_efficiency import LowComputeEfficiency
from timeroof.advice.rules.matrix_units_missed import MatrixUnitsMissed
from timeroof.advice.rules.near_bandwidth_roof import NearBandwidthRoof
from timeroof.advice.rules.noisy_measurement import NoisyMeasurement
from timeroof.advice.rules.optimizer_launches import OptimizerLaunches
from timeroof.advice.rules.recomputation import Recomputation
from timeroof.advice.rules.slow_data import SlowData
from timeroof.advice.rules.small_batch import SmallBatch
from timeroof.advice.rules.tiny_kernels import TinyKernels
from timeroof.advice.rules.traffic_above_compulsory import TrafficAboveCompulsory
from timeroof.advice.rules.unbalanced_ranks import UnbalancedRanks
from timeroof.advice.rules.unknown_share import UnknownShare
from timeroof.advice.rules.wide_precision import WidePrecision
from timeroof.core.errors import UsageError

GROUPS = {
    "TR1": "Launching and waiting",
    "TR2": "Memory traffic",
    "TR3": "Arithmetic",
    "TR4": "Several devices",
    "TR9": "The measurement itself",
}

RULES: tuple[Rule, ...] = (
    TinyKernels(),
    SmallBatch(),
    OptimizerLaunches(),
    HostBound(),
    SlowData(),
    HostWaits(),
    ExposedCommunication(),
    Asleep(),
    LayoutTraffic(),
    TrafficAboveCompulsory(),
    ElementwiseChain(),
    NearBandwidthRoof(),
    CacheResident(),
    FreshMemory(),
    LowBandwidth(),
    MatrixUnitsMissed(),
    Float64(),
    WidePrecision(),
    LowComputeEfficiency(),
    Recomputation(),
    UnbalancedRanks(),
    NoisyMeasurement(),
    UnknownShare(),
    AboveRoof(),
)


def rule_of(code: str) -> Rule:
    """The rule with a code, in any case of letters.

    >>> rule_of("tr101").name
    'tiny-kernels'
    """
    for rule in RULES:
        if rule.code == code.upper():
            return rule
    raise UsageError(
        f"no finding has the code {code!r}",
        advice=f"codes are {RULES[0].code} to {RULES[-1].code}; docs/findings.md lists them",
    )
