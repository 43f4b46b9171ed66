"""A function of the user's own: what it may return, how its cases are made, and how it fails."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from timeroof.core.errors import UsageError
from timeroof.study.case import Case, Hello, OwnParameter, Plan, Result
from timeroof.study.own import OwnChoices, own_cases, reference, swept_values, typed_value
from timeroof.study.report import alike, judged_study, leaks_of, profile_of
from timeroof.study.worker import own as worker_own
from timeroof.study.worker.own import Own, OwnError, imported, parameters_of, unpacked

FAST = Plan(
    warmup_s=0.001, budget_s=0.01, least=2, sample_s=1e-6, one_thread_beside_others=False
)  # fmt: skip


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def same_modules(tmp_path: Path) -> Iterator[None]:
    """What a test imports from its folder is gone after it, and so is the folder."""
    path = list(sys.path)
    yield
    for name, found in list(sys.modules.items()):
        if str(getattr(found, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    sys.path[:] = path


def cases(own: Any, given: dict[str, list[object]], **how: Any) -> list[Case]:
    function = own if isinstance(own, Own) else Own("make", own)
    hello = function.hello("torch")
    assert hello.error is None, hello.error
    named = reference_of(function)
    return own_cases(
        named, hello, swept_values(named, hello, given, typed=False), OwnChoices(**how)
    )


def reference_of(own: Own) -> Any:
    from timeroof.study.case import OwnFunction

    return OwnFunction(name=own.name, path="", function=own.name)


def measured(make: Callable[..., Any], given: dict[str, list[object]], **how: Any) -> list[Result]:
    pytest.importorskip("torch")
    from timeroof.study.worker.torch_bench import Bench

    own = Own("make", make)
    return list(Bench(None, own).measure(cases(own, given, **how), FAST))


# Values and cases.


def test_values_have_the_type_of_annotation_or_default() -> None:
    def make(n: int, rate: float, name: str, flag: bool, size=8, scale=0.5, other=None): ...

    kinds = {p.name: p.kinds for p in parameters_of(make)[0]}
    assert kinds == {
        "n": ["int"], "rate": ["float"], "name": ["str"], "flag": ["bool"], "size": ["int"],
        "scale": ["float"], "other": [],
    }  # fmt: skip
    typed = {p.name: p for p in parameters_of(make)[0]}
    assert typed_value(typed["n"], "1e6") == 1_000_000
    assert typed_value(typed["rate"], "2") == 2.0
    assert typed_value(typed["name"], "8") == "8"
    assert typed_value(typed["flag"], "no") is False
    with pytest.raises(UsageError, match=r"n cannot be '1\.5'; make wants int"):
        typed_value(typed["n"], "1.5", "make")


def test_choices_and_unions_are_understood() -> None:
    def make(mode: Any = "sum", size: int | None = None): ...

    from typing import Literal

    make.__annotations__["mode"] = Literal["sum", "mean"]
    mode, size = parameters_of(make)[0]
    assert mode.choices == ["sum", "mean"]
    assert size.kinds == ["int"]
    with pytest.raises(UsageError, match="one of sum, mean"):
        typed_value(mode, "max")


def test_one_parameter_moves_at_a_time_around_defaults_or_first_values() -> None:
    def make(batch, width=64, heads=4): ...

    found = [c.params for c in cases(make, {"batch": [1, 8], "width": [64, 128]})]
    assert found == [
        {"width": 64, "heads": 4, "batch": 1}, {"width": 64, "heads": 4, "batch": 8},
        {"width": 128, "heads": 4, "batch": 1},
    ]  # fmt: skip
    assert [c.params for c in cases(make, {"batch": [2]})] == [
        {"width": 64, "heads": 4, "batch": 2}
    ]


def test_a_wrong_parameter_says_which_there_are() -> None:
    def make(batch, width=64): ...

    with pytest.raises(UsageError, match="make has no parameter 'bach'; it has batch, width"):
        cases(make, {"bach": [1]})
    with pytest.raises(UsageError, match="make needs a value of batch"):
        cases(make, {"width": [1]})
    with pytest.raises(UsageError, match="batch cannot be a value of type list"):
        cases(make, {"batch": [[1]]})


def test_any_name_is_taken_by_keyword_arguments() -> None:
    def make(**sizes): ...

    assert [c.params for c in cases(make, {"n": [1, 2]})] == [{"n": 1}, {"n": 2}]


def test_a_changed_file_is_another_function(module: Callable[..., Path]) -> None:
    first = reference(f"{module('def make(n): ...')}:make")
    second = reference(f"{module('def make(n): return 1')}:make")
    assert first.name == second.name == "mine.py:make"
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine.py", "does not name a function"),
        ("nowhere.py:make", "cannot be read"),
        ("mine.txt:make", "is not a Python file"),
        ("mine.py:a-b", "cannot be the name"),
    ],
)
def test_what_names_no_function_is_refused(text: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        reference(text)


# Importing.


def test_files_beside_it_are_found_and_ours_are_not_theirs(module: Callable[..., Path]) -> None:
    module("VALUE = 3", "beside_it.py")
    module("raise RuntimeError('never imported')", "msgspec.py")
    path = module("import beside_it\ndef make(n=1): return lambda: beside_it.VALUE")
    own = imported(reference(f"{path}:make"))
    assert own.made({"n": 1}).function() == 3
    assert sys.path[-1] == str(path.parent)
    import msgspec

    assert "site-packages" in str(msgspec.__file__)


def test_a_file_in_a_package_has_its_relative_imports(module: Callable[..., Path]) -> None:
    module("", "pack/__init__.py")
    module("VALUE = 4", "pack/inner.py")
    path = module("from .inner import VALUE\ndef make(n=1): return lambda: VALUE", "pack/mine.py")
    assert imported(reference(f"{path}:make")).made({}).function() == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nowhere_to_be_found", r"ModuleNotFoundError: .* \(mine.py:1\)"),
        ("from .x import y", "relative import but is not in a package.*__init__.py"),
        ("def make(:", r"not valid Python: .* \(line 1\)"),
        ("import sys\nsys.exit(2)", "ended Python while it was imported.*__main__"),
        ("1 / 0", r"ZeroDivisionError: division by zero \(mine.py:1\)"),
        ("def other(n): ...", "mine.py has no function 'make'; it has other"),
        ("make = 3", "is not a function but a value of type int"),
    ],
)
def test_why_it_cannot_be_imported_is_one_sentence(
    module: Callable[..., Path], text: str, words: str
) -> None:
    path = module(text)
    with pytest.raises(OwnError, match=words) as caught:
        imported(reference(f"{path}:make"))
    assert "\n" not in str(caught.value)


def test_a_file_called_like_a_library_takes_nothing_away(module: Callable[..., Path]) -> None:
    path = module("def make(n=1): return lambda: n", "json.py")
    imported(reference(f"{path}:make"))
    import json

    assert hasattr(json, "dumps")


def test_a_script_that_sweeps_its_own_function_is_imported_up_to_there(
    module: Callable[..., Path],
) -> None:
    path = module(
        """
        import timeroof
        def make(n): return lambda: n
        timeroof.sweep(make, n=[1, 2])
        raise RuntimeError("after it")
        """
    )
    assert imported(reference(f"{path}:make")).made({"n": 5}).function() == 5
    assert not worker_own.is_importing()


def test_the_framework_is_the_one_that_the_file_imports(module: Callable[..., Path]) -> None:
    text = "def make(n=1):\n    import {0}\n    return lambda: {0}"
    for name, framework in (("torch", "torch"), ("jax", "jax"), ("flax", "jax"), ("keras", None)):
        path = module(text.format(name), f"uses_{name}.py")
        hello = imported(reference(f"{path}:make")).hello(None)
        assert hello.framework == (framework or hello.framework)
    both = module("import torch, jax\ndef make(n=1): return lambda: (torch, jax)", "both.py")
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    hello = imported(reference(f"{both}:make")).hello(None)
    assert hello.error == "the file uses jax and torch"


def test_no_parameter_and_async_are_said_before_anything_runs() -> None:
    async def waits(n): ...

    assert "takes no parameter" in (Own("make", lambda: 1).hello(None).error or "")
    assert "is async" in (Own("make", waits).hello(None).error or "")
    unnamed: Callable[..., int] = len
    assert "have no names" in (Own("make", unnamed).hello(None).error or "")


# What it returns.


async def _waits() -> None: ...


def _yields() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "make returned nothing; return a function"),
        (3.0, "make returned a value of type float, which cannot be called"),
        (lambda x, y: 1, r"without its inputs \(x, y\)"),
        ((n for n in ()), "make returned a generator"),
        (_waits, "make returned a function that is async; return a plain function"),
        ((_yields, []), "make returned a function that is a generator"),
    ],
)
def test_what_cannot_be_run_is_said(returned: object, words: str) -> None:
    with pytest.raises(OwnError, match=words):
        unpacked(returned, "make")


def test_inputs_come_as_one_several_or_by_name() -> None:
    assert unpacked((max, 1, 2), "make").inputs == (1, 2)
    assert unpacked((max, [1, 2]), "make").inputs == (1, 2)
    assert unpacked((dict, {"a": 1}), "make").named == {"a": 1}
    assert unpacked(lambda: 1, "make").bare


# Measured in torch.


def test_a_module_and_its_inputs_are_counted_in_both_passes() -> None:
    torch = pytest.importorskip("torch")

    def make(batch: int, width: int = 16):
        return torch.nn.Linear(width, width), torch.randn(batch, width)

    found = measured(make, {"batch": [2, 4]}, passes=["forward", "backward"])
    assert [r.status for r in found] == ["done"] * 4
    assert [r.contraction_flops for r in found] == [1024, 2048, 2048, 4096]
    assert all(r.launches and r.amounts["byte/dram"] for r in found)


def test_a_function_without_inputs_runs_as_it_is_written() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        x, w = torch.randn(n, n), torch.randn(n, n, requires_grad=True)

        def step():
            loss = (x @ w).sum()
            loss.backward()
            return loss

        return step

    (one,) = measured(make, {"n": [8]})
    assert one.status == "done", one.error
    assert one.contraction_flops == 2 * 2 * 8**3


def test_gradients_are_those_of_all_that_has_one() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        w = torch.randn(n, n, requires_grad=True)
        return lambda: {"loss": (w @ w).sum()}

    (one,) = measured(make, {"n": [8]}, passes=["backward"])
    assert one.status == "done", one.error
    assert one.contraction_flops == 2 * 2 * 8**3


def test_results_and_inputs_may_be_nested() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        layer = torch.nn.LSTM(n, n)
        return layer, {"input": torch.randn(3, 2, n)}

    found = measured(make, {"n": [4]}, passes=["forward", "backward"])
    assert [r.status for r in found] == ["done", "done"], [r.error for r in found]


def test_one_case_fails_with_its_line_and_its_traceback_and_the_others_go_on() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        if n == 2:
            raise ValueError("n must not be 2")
        if n == 3:
            sys.exit(7)
        return lambda: torch.ones(n) + 1

    good, bad, exits, more = measured(make, {"n": [1, 2, 3, 4]})
    assert [good.status, bad.status, exits.status, more.status] == [
        "done",
        "failed",
        "failed",
        "done",
    ]
    assert bad.error is not None
    assert bad.error.startswith("ValueError: n must not be 2 (test_own_function.py:")
    assert "Traceback" in bad.labels["traceback"]
    assert "sys.exit(7)" in (exits.error or "")


def test_what_fails_after_some_executions_costs_itself_only() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        count = [0]

        def run():
            count[0] += 1
            if n == 2 and count[0] > 6:
                raise IndexError("ran out of data")
            return torch.ones(n) + 1

        return run

    good, bad = measured(make, {"n": [1, 2]})
    assert (good.status, bad.status) == ("done", "failed")
    assert "ran out of data" in (bad.error or "")


def test_state_that_stays_between_cases_is_said() -> None:
    torch = pytest.importorskip("torch")
    layers: list[Any] = []

    def make(n: int):
        torch.set_default_dtype(torch.float64)
        layers.append(torch.nn.Linear(4, 4, dtype=torch.float32))
        return torch.nn.Sequential(*layers), torch.ones(n, 4, dtype=torch.float32)

    found = measured(make, {"n": [1, 2]})
    assert torch.get_default_dtype() is torch.float32
    said = leaks_of(found)["make"]
    assert "It leaves torch's default dtype at torch.float64" in said
    assert "it keeps state between calls or draws random numbers" in said


def test_tensors_without_data_and_a_device_that_is_another_are_refused() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        return torch.nn.Linear(n, n, device="meta"), torch.ones(2, n, device="meta")

    (one,) = measured(make, {"n": [4]})
    assert "on the device meta" in (one.error or "")


def test_a_custom_op_counts_what_is_stated_of_it() -> None:
    torch = pytest.importorskip("torch")
    import timeroof
    from timeroof.work.counting import forget

    schema = "(Tensor x) -> Tensor"
    scaled = torch.library.custom_op(
        "ownstudy_test::scaled", lambda x: x * 3, mutates_args=(), schema=schema
    )

    def make(n: int):
        x = torch.ones(n)
        return lambda: scaled(x)

    timeroof.cost_of("ownstudy_test::scaled")(
        lambda call: {
            "flops": 7.0 * call.inputs[0].shape[0],
            "bytes": 8.0 * call.inputs[0].shape[0],
        }
    )
    try:
        (one,) = measured(make, {"n": [16]})
    finally:
        forget("ownstudy_test::scaled")
    assert one.status == "done", one.error
    assert one.amounts["flop/fp32"] == 7.0 * 16


def test_a_stated_cost_stands_for_all_that_the_op_calls() -> None:
    torch = pytest.importorskip("torch")
    import timeroof
    from timeroof.work.counting import forget

    gated = torch.library.custom_op(
        "ownstudy_test::gated", lambda a: a * torch.sigmoid(a), mutates_args=(),
        schema="(Tensor a) -> Tensor",
    )  # fmt: skip
    timeroof.cost_of("ownstudy_test::gated")(
        lambda call: {"flops": 5 * call.inputs[0].count, "bytes": 8 * call.inputs[0].count}
    )
    try:
        (one,) = measured(lambda n: (gated, torch.ones(n)), {"n": [16]})
    finally:
        forget("ownstudy_test::gated")
    # Not the 20 bytes per element of its product and its sigmoid.
    assert (one.amounts["flop/fp32"], one.amounts["byte/l1"]) == (5 * 16, 8 * 16)
    assert one.launches == 1


def test_a_function_that_runs_backward_itself_has_no_backward_pass() -> None:
    torch = pytest.importorskip("torch")

    def make(n: int):
        net = torch.nn.Linear(n, n)

        def step():
            loss = net(torch.ones(2, n)).square().sum()
            loss.backward()
            return loss

        return step

    forward, backward = measured(make, {"n": [4]}, passes=["forward", "backward"])
    assert forward.status == "done", forward.error
    assert backward.status == "failed"
    assert "it runs a backward pass itself" in (backward.error or "")
    assert "--pass forward" in (backward.error or "")


def test_a_framework_has_its_own_word_for_what_is_compiled() -> None:
    function = reference_of(Own("make", len))
    how = OwnChoices(variants=["compiled"])
    for framework, name in (("torch", "compile"), ("jax", "compiled"), ("tensorflow", "xla")):
        (one,) = own_cases(function, Hello(framework=framework), {"n": [1]}, how)
        assert one.variant == name
    with pytest.raises(UsageError, match="no variant of a function in jax is called 'graph'"):
        own_cases(function, Hello(framework="jax"), {"n": [1]}, OwnChoices(variants=["graph"]))


def test_one_value_needs_no_list() -> None:
    hello = Hello(parameters=[OwnParameter(name="n")], framework="torch")
    given: Any = {"n": 8}
    assert swept_values(reference_of(Own("make", len)), hello, given, typed=False) == {"n": [8]}


def test_cases_that_fail_for_one_reason_are_one_line() -> None:
    def fails(n: int):
        raise ValueError("not even" if n % 2 else "even")

    found = alike(measured(fails, {"n": [1, 2, 3]}))
    assert [[r.case.params["n"] for r in same] for same in found] == [[1, 3], [2]]


def test_work_that_torch_does_not_see_is_unknown_and_not_none() -> None:
    (one,) = measured(lambda n: lambda: sum(range(n)), {"n": [5]})
    assert one.status == "done"
    assert one.amounts["flop/fp32"] is None
    assert one.amounts["byte/dram"] is None


def test_a_function_without_a_framework_has_a_time_and_unknown_work() -> None:
    from timeroof.study.worker.python_bench import Bench

    own = Own("make", lambda n: lambda: sum(range(n)))
    forward, backward = Bench(None, own).measure(
        cases(own, {"n": [5]}, passes=["forward", "backward"]), FAST
    )
    assert forward.status == "done"
    assert forward.samples_s
    assert forward.amounts["flop/fp32"] is None
    assert backward.status == "unsupported"


def test_parameters_called_like_labels_stay_apart() -> None:
    hello = Hello(parameters=[OwnParameter(name="device", default="cpu")], framework="torch")
    named = reference_of(Own("make", len))
    made = own_cases(named, hello, {"device": ["a", "b"], "threads": [3]}, OwnChoices())
    results = [Result(case=c, status="done", samples_s=[1.0], launches=1.0) for c in made]
    study = judged_study(results, None)
    assert {row.params["device"] for row in study.rows} == {"a", "b"}
    assert {row.device for row in study.rows} == {"cpu"}
    assert profile_of(results).kernels["dtype"].to_list() == [None, None]


# In JAX.


@pytest.mark.slow
def test_a_jax_function_is_counted_in_both_passes_and_variants() -> None:
    jax = pytest.importorskip("jax")
    from timeroof.study.worker.jax_bench import Bench

    def make(n: int):
        def run(a, b, scale):
            return {"y": (a @ b) * scale}

        return run, [jax.numpy.ones((n, n)), jax.numpy.ones((n, n)), 2]

    own = Own("make", make)
    how = OwnChoices(passes=["forward", "backward"], variants=["eager", "compiled"])
    wanted = own_cases(reference_of(own), own.hello("jax"), {"n": [8]}, how)
    found = list(Bench(None, own).measure(wanted, FAST))
    assert [r.status for r in found] == ["done"] * 4, [r.error for r in found]
    assert [r.contraction_flops for r in found] == [1024, 1024, 2048, 2048]
