"""The kernel `rnn`: one layer of a plain recurrent network (tanh) over a sequence."""

from timeroof.study.recurrent import recurrent_kernel

KERNEL = recurrent_kernel("rnn", "one layer of a plain recurrent network (tanh)")
