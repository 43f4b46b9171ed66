"""The kernel `lstm`: one LSTM layer over a sequence."""

from timeroof.study.recurrent import recurrent_kernel

KERNEL = recurrent_kernel("lstm", "one LSTM layer")
