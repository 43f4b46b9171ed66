"""What the user should do: rules that read a judged run and name what could be saved."""

from timeroof.advice.advise import RULES, advise, rule_of

__all__ = ["RULES", "advise", "rule_of"]
