"""The tile of a matrix kernel: the block of the output (and depth) one work group computes."""

from __future__ import annotations

from timeroof.work.names.patterns import bounded

# The first pattern that fits decides; its groups are joined with x.
_TABLE = (
    r"_MT(\d+)x(\d+)x(\d+)",  # Tensile
    r"tilesize(\d+)x(\d+)x(\d+)",  # xmma
    r"_bt(\d+)x(\d+)x(\d+)",  # MIOpen igemm
    r"_t(\d+)x(\d+)x(\d+)u\d",  # TensorRT-LLM
    r"Cta_tile<[^<>]*?(\d+), (\d+), (\d+)",
    r"GemmShape<(\d+), (\d+), (\d+)",
    r"TileGemmShape<[\w:]*sequence<(\d+), (\d+), (\d+)",
    r"_1x(\d+)x(\d+)_\d+x\d+x\d+_cga",  # cuDNN attention
    r"Flash_fwd_kernel_traits<\d+, (\d+), (\d+)",  # after the head's size: rows of q, rows of k
    r"Mainloop\w+<\d+, cute::tuple<[^>]*>[^>]*>[^>]*> ?>, cute::tuple<\w+::C<(\d+)>, \w+::C<(\d+)>",
    r"_(\d+)x(\d+)_\d+x\d+_",  # CUTLASS: tile, then depth x stages
    r"_(\d+)x(\d+)x(\d+)x\d+(?:_|$)",
    r"(?:^|_)(\d+)x(\d+)x(\d+)(?:_|$)",
    r"_(\d\d+)x(\d+)(?:_|$)",
    r"Q(\d+)Kv(\d+)",
)
_RULES = tuple(bounded(pattern) for pattern in _TABLE)


def tile_of(text: str) -> str | None:
    """The tile as the name tells it.

    >>> tile_of("volta_sgemm_128x64_nn"), tile_of("Cijk_Ailk_Bjlk_SB_MT64x16x16_MI16x16x1_SN")
    ('128x64', '64x16x16')
    """
    for rule in _RULES:
        found = rule.search(text)
        if found:
            return "x".join(group for group in found.groups() if group)
    return None
