"""The light demangler against hand-checked names, and against c++filt where there is one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from timeroof.work.names.demangle import demangle

KNOWN = {
    "_Z9my_kernelPKfPfi": "my_kernel(float const*, float*, int)",
    "_ZN2at6native6reduceILi512ELi1EfEEvT1_": "at::native::reduce<512, 1, float>(T3)",
    "_ZN3foo3barIN3c104HalfES2_EEvv": "foo::bar<c10::Half, c10::Half>()",
    "_ZN12_GLOBAL__N_14workEv": "(anonymous namespace)::work()",
    "_Z1fIJifEEvv": "f<int, float>()",
    "_Z3addILb1ELin4EEvv": "add<true, -4>()",
    "_Z1fIDF16_DF16bEvv": "f<_Float16, __bf16>()",
    "_ZSt4swapIiEvRT_S1_": "std::swap<int>(T1&, T1&)",
    "plain_name": "plain_name",
    "_Z": "",
}


@pytest.mark.parametrize("mangled", KNOWN)
def test_known_names(mangled: str) -> None:
    assert demangle(mangled) == KNOWN[mangled]


def test_a_name_that_was_cut_off_gives_its_beginning() -> None:
    whole = "_ZN2at6native27unrolled_elementwise_kernelILi4EN3c104HalfEEEvT0_"
    readable = demangle(whole)
    for end in range(45, len(whole)):
        assert demangle(whole[:end]).startswith("at::native::unrolled_elementwise_kernel")
    assert readable == "at::native::unrolled_elementwise_kernel<4, c10::Half>(T2)"


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt to compare with")
@pytest.mark.parametrize("mangled", [n for n in KNOWN if n.startswith("_Z") and len(n) > 2])
def test_the_function_is_the_one_c_plus_plus_filt_names(mangled: str) -> None:
    command = ["c++filt", "--no-params", mangled]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    function = said.removeprefix("void ").split("<", 1)[0]
    assert demangle(mangled).startswith(function)
