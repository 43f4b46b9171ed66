"""A light demangler for Itanium C++ names: good enough to read them, never in the way.

It knows names, template arguments, lambdas, literals and substitutions of the Itanium C++ ABI,
and gives up on nothing: a name that is cut off or uses an unknown construct yields what was
understood up to there. Profilers do cut names (nvprof at 200 characters).

>>> demangle("_ZN2at6native13reduce_kernelILi512ELi1EfEEvT1_")
'at::native::reduce_kernel<512, 1, float>(T3)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A part longer than this is cut: substitutions can double a text at every step.
LONGEST_PART = 2000
DEEPEST = 80

BUILTINS = {
    **{"v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char"},
    **{"h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int"},
    **{"l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long"},
    **{"n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double"},
    **{"g": "__float128", "z": "..."},
}
SPELT_TYPES = {
    **{"DF16_": "_Float16", "DF16b": "__bf16", "Dn": "decltype(nullptr)", "Dh": "half"},
    **{"Di": "char32_t", "Ds": "char16_t"},
    **BUILTINS,
}
QUALIFIERS = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": ""}
ABBREVIATIONS = {
    **{"St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string"},
    **{"Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream"},
}


def demangle(name: str) -> str:
    """The readable form of a mangled name; any other name comes back as it is."""
    return Demangler(name[2:]).encoding() if name.startswith("_Z") else name


class Demangler:
    """Reads a mangled name from left to right; at the end every part is empty."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.known: list[str] = []

    def peek(self, count: int = 1) -> str:
        """The next characters, without moving on."""
        return self.text[self.at : self.at + count]

    def take(self, wanted: str) -> bool:
        """Move past `wanted` if it comes next."""
        found = self.text.startswith(wanted, self.at)
        self.at += len(wanted) if found else 0
        return found

    def give_up(self) -> str:
        """Stop here: what was read so far is the answer."""
        self.at = len(self.text)
        return ""

    def remember(self, part: str) -> str:
        """Note a part that later parts may refer to."""
        part = part[:LONGEST_PART]
        self.known.append(part)
        return part

    def until(self, end: str, part: Callable[[], str]) -> list[str]:
        """Parts up to a closing letter or the end of the text."""
        parts: list[str] = []
        while self.at < len(self.text) and not self.take(end):
            before = self.at
            parts.append(self.deeper(part))
            if self.at == before:
                self.give_up()
        return parts

    def deeper(self, part: Callable[[], str]) -> str:
        """A part inside of another; one that is too deep ends the reading."""
        if self.depth >= DEEPEST:
            return self.give_up()
        self.depth += 1
        read = part()
        self.depth -= 1
        return read

    def number(self) -> int:
        """A decimal number, 0 if there is none; absurd ones end the reading."""
        start = self.at
        while self.peek().isdecimal() and self.peek().isascii():
            self.at += 1
        digits = self.text[start : self.at]
        return int(digits) if 0 < len(digits) < 7 else 0

    def encoding(self) -> str:
        """A name and the types of its parameters."""
        name = self.name(of_function=True)
        types: list[str] = []
        while self.at < len(self.text) and self.peek() not in "E.":
            before = self.at
            types.append(self.type())
            if self.at == before:
                break
        # The first type of a template function is what it returns.
        parameters = types[1:] if name.endswith(">") else types
        listed = ", ".join(p for p in parameters if p != "void")
        return (f"{name}({listed})" if types else name)[: 2 * LONGEST_PART]

    def name(self, *, of_function: bool = False) -> str:
        """A nested, local or plain name, with template arguments."""
        if self.take("N"):
            name = self.nested()
            if of_function and self.known[-1:] == [name]:
                self.known.pop()  # only types and prefixes can be referred to
            return name
        if self.take("Z"):
            outer = self.deeper(self.encoding)
            self.take("E")
            if self.take("s"):
                return outer
            inner = self.deeper(lambda: self.name(of_function=of_function))
            self.discriminator()
            return f"{outer}::{inner}"[:LONGEST_PART]
        if self.peek() == "S" and self.peek(2) != "St":
            return self.substitution() + self.arguments()
        prefix = "std::" if self.take("St") else ""
        plain = prefix + self.part()
        if self.peek() == "I":
            self.remember(plain)
        return plain + self.arguments()

    def nested(self) -> str:
        """The inside of N...E: every prefix may be referred to later."""
        while self.peek() in ("r", "V", "K", "R", "O") and self.peek():
            self.at += 1
        path = ""
        while self.at < len(self.text) and not self.take("E"):
            before = self.at
            if self.peek() == "I":
                path = self.remember(path + self.arguments())
            elif self.peek() == "S":
                path = self.substitution()
            else:
                part = self.part()
                path = self.remember(f"{path}::{part}" if path else part)
            if self.at == before:
                self.give_up()
        return path

    def part(self) -> str:
        """One component of a name."""
        self.take("L")
        here = self.peek()
        if here.isdecimal():
            length = self.number()
            text = self.text[self.at : self.at + length]
            self.at += length
            return "(anonymous namespace)" if text.startswith("_GLOBAL__N") else text
        if self.take("Ul"):
            types = ", ".join(t for t in self.until("E", self.type) if t != "void")
            self.discriminator()
            return f"{{lambda({types})}}"
        if self.take("Ut"):
            self.discriminator()
            return "{unnamed}"
        if here in ("T", "D") and here:
            return self.type()
        if (self.peek(2).isalpha() and self.peek(2).islower()) or here == "C":
            operator = self.peek(2)
            self.at += 2
            return "operator()" if operator == "cl" else f"operator {operator}"
        return self.give_up()

    def discriminator(self) -> None:
        """The number that tells lambdas or local names apart: not shown."""
        while self.peek() == "_" or self.peek().isdecimal():
            self.at += 1
            if self.text[self.at - 1] == "_" and self.peek() != "_":
                break

    def arguments(self) -> str:
        """Template arguments in angle brackets, or nothing."""
        if not self.take("I"):
            return ""
        arguments = [a for a in self.until("E", self.argument) if a]
        return f"<{', '.join(arguments)}>"[:LONGEST_PART]

    def argument(self) -> str:
        """A type, a literal, a pack or an expression."""
        if self.take("L"):
            return self.literal()
        if self.take("J"):
            return ", ".join(self.until("E", self.argument))[:LONGEST_PART]
        if self.take("X"):
            return self.give_up()
        return self.type()

    def literal(self) -> str:
        """The value of a literal; the name of a function or enumeration it stands for."""
        if self.take("_Z"):
            value = self.deeper(self.encoding)
            self.take("E")
            return value
        kind = self.type()
        end = self.text.find("E", self.at)
        value = self.text[self.at : end if end >= 0 else len(self.text)].replace("n", "-")
        self.at = end + 1 if end >= 0 else len(self.text)
        if kind == "bool":
            return "true" if value == "1" else "false"
        return value if kind in BUILTINS.values() else f"({kind}){value}"

    def type(self) -> str:
        """A type; qualified and named ones may be referred to later."""
        return self.deeper(self._type)

    def _type(self) -> str:
        for code, spelt in SPELT_TYPES.items():
            if self.take(code):
                return spelt
        here = self.peek()
        if here in QUALIFIERS and here:
            self.at += 1
            return self.remember(self.type() + QUALIFIERS[here])
        if here == "T":
            return self.template_parameter()
        if here == "S" and self.peek(2) != "St":
            return self.substituted_type()
        if here in ("N", "Z", "S") or here.isdecimal():
            name = self.name()
            return name if name in self.known[-1:] else self.remember(name)
        return self.rare_type()

    def rare_type(self) -> str:
        """Packs, functions, arrays and vendors' types."""
        if self.take("Dp"):
            return self.type()
        if self.take("F"):
            return self.remember(f"({', '.join(self.until('E', self.type))})")
        if self.take("A"):
            size = self.number()
            self.take("_")
            return self.remember(f"{self.type()}[{size}]")
        return self.remember(self.part()) if self.take("u") else self.give_up()

    def template_parameter(self) -> str:
        """T_, T0_, ...: counted from 1, as nvcc prints them."""
        self.at += 1
        start = self.at
        while self.peek() not in ("_", ""):
            self.at += 1
        digits = self.text[start : self.at]
        self.at += 1
        readable = digits.isalnum() and digits.isascii() and len(digits) < 4
        parameter = self.remember(f"T{int(digits, 36) + 2 if readable else 1}")
        return self.remember(parameter + self.arguments()) if self.peek() == "I" else parameter

    def substituted_type(self) -> str:
        """A substitution that is a type, maybe with template arguments of its own."""
        name = self.substitution()
        return self.remember(name + self.arguments()) if self.peek() == "I" else name

    def substitution(self) -> str:
        """S_, S0_, ...: something said before; Sa, Ss, ...: well-known names."""
        two = self.peek(2)
        if two in ABBREVIATIONS:
            self.at += 2
            return ABBREVIATIONS[two]
        self.at += 1
        start = self.at
        while self.peek() not in ("_", "") and self.at - start < 4:
            self.at += 1
        digits = self.text[start : self.at]
        if not self.take("_") or not (digits == "" or (digits.isalnum() and digits.isascii())):
            return self.give_up()
        index = int(digits, 36) + 1 if digits else 0
        return self.known[index] if index < len(self.known) else ""
