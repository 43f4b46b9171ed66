"""The kernel `gru`: one GRU layer over a sequence."""

from timeroof.study.recurrent import recurrent_kernel

KERNEL = recurrent_kernel("gru", "one GRU layer")
