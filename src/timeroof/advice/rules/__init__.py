"""The rules, one per file; `FILES` is their registry."""

FILES = (
    "above_roof", "asleep", "cache_resident", "eager", "eager_attention", "elementwise_chain",
    "excess_work", "exposed_communication", "float64", "fresh_memory", "host_bound", "host_waits",
    "layout_traffic", "low_bandwidth", "low_compute_efficiency", "matrix_units_missed",
    "near_bandwidth_roof", "noisy_measurement", "optimizer_launches", "recomputation",
    "recompiling", "slow_data", "small_batch", "small_pages", "tiny_kernels",
    "traffic_above_compulsory", "unbalanced_ranks", "unfused_optimizer", "unknown_share",
    "wide_precision",
)  # fmt: skip
