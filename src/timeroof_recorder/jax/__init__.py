"""JAX's instruments: proxies round compiled functions, the profiler's session, compilations."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof_recorder.instruments import Instruments


def make() -> "Instruments":
    """The instruments of JAX, which has been imported."""
    from timeroof_recorder.jax.session_instruments import JaxInstruments

    return JaxInstruments()
