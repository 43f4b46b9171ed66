"""TensorFlow's instruments: calls of functions and sessions, updates, the profiler, eager ops."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof_recorder.instruments import Instruments


def make() -> "Instruments":
    """The instruments of TensorFlow, which has been imported."""
    from timeroof_recorder.tensorflow.session_instruments import TensorflowInstruments

    return TensorflowInstruments()
