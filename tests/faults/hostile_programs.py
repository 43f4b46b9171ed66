"""Programs that do what nobody expects: each ends under `timeroof run` as it does under Python.

By name: the source of `train.py`. What they print holds no pid, address or time.
"""

from __future__ import annotations

from tests.live.live_programs import MODEL

_HEAD = "import os, signal, sys, threading, time\n"

PROGRAMS: dict[str, str] = {
    # Endings.
    "empty": "",
    "only a comment": "# nothing\n",
    "exit with a string": "sys.exit('a last word')",
    "exit with None": "sys.exit(None)",
    "exit with a huge code": "sys.exit(10**30)",
    "exit with 256": "sys.exit(256)",
    "exit with -1": "sys.exit(-1)",
    "exit with a tuple": "sys.exit((1, 2))",
    "exit with an object whose str raises": (
        "class E:\n    def __str__(self): raise ValueError('no')\nsys.exit(E())"
    ),
    "SystemExit without arguments": "raise SystemExit",
    "SystemExit of a subclass": "class Mine(SystemExit): pass\nraise Mine(9)",
    "quit()": "quit(4)",
    "os._exit": "print('out', flush=True); os._exit(11)",
    "os._exit in atexit": "import atexit; atexit.register(os._exit, 12)",
    "atexit raises": "import atexit; atexit.register(lambda: 1 / 0); sys.exit(5)",
    "atexit exits": "import atexit; atexit.register(lambda: sys.exit(6))",
    "atexit is cleared": "import atexit; atexit._clear(); sys.exit(3)",
    "atexit runs by hand": "import atexit; atexit.register(print, 'bye'); atexit._run_exitfuncs()",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "KeyboardInterrupt in a thread": (
        "threading.Thread(target=lambda: (_ for _ in ()).throw(KeyboardInterrupt)).start()"
    ),
    "BaseException": "class Odd(BaseException): pass\nraise Odd('odd')",
    "exception group": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "exception with a surrogate": r"raise ValueError('\ud800')",
    "exception whose str raises": (
        "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E"
    ),
    "excepthook replaced": "sys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0",
    "excepthook raises": "def hook(*a): raise ValueError('hook')\nsys.excepthook = hook\n1/0",
    "excepthook is None": "sys.excepthook = None\n1/0",
    "excepthook exits": "sys.excepthook = lambda *a: os._exit(33)\n1/0",
    "unraisable at the end": "class D:\n    def __del__(self): raise ValueError('del')\nd = D()",
    "stack overflow": "def f(): f()\nf()",
    "recursion limit lowered": "sys.setrecursionlimit(60)\nprint('low')",
    "recursion limit lowered and met": "sys.setrecursionlimit(40)\ndef f(n): return n and f(n-1)\nf(99)",
    "memory error": "x = 'a' * (1 << 60)",
    "abort": "os.abort()",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "killed by itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated by itself": "os.kill(os.getpid(), signal.SIGTERM)",
    "hung up by itself": "os.kill(os.getpid(), signal.SIGHUP)",
    "a real-time signal": "os.kill(os.getpid(), signal.SIGRTMIN + 3)",
    "a broken pipe": (
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL); r, w = os.pipe(); os.close(r)\n"
        "os.write(w, b'x')"
    ),
    # Signals that it answers itself.
    **{
        f"handler of {name} that exits": (
            f"signal.signal(signal.{name}, lambda *_: sys.exit({code}))\n"
            f"os.kill(os.getpid(), signal.{name}); time.sleep(5)"
        )
        for name, code in (
            ("SIGHUP", 21), ("SIGTERM", 22), ("SIGALRM", 23), ("SIGINT", 24), ("SIGUSR1", 25),
            ("SIGQUIT", 26), ("SIGCHLD", 27),
        )
    },
    "handler that counts": (
        "seen = []\nfor n in (1, 2, 10, 12, 14, 15, 17):\n"
        "    signal.signal(n, lambda n, _: seen.append(n)); os.kill(os.getpid(), n)\n"
        "print(seen)"
    ),
    "all signals ignored": (
        "for n in signal.valid_signals():\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "os.kill(os.getpid(), 15); os.kill(os.getpid(), 1); sys.exit(8)"
    ),
    "all signals blocked": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "os.kill(os.getpid(), 15); sys.exit(9)"
    ),
    "an alarm": "signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(9)",
    "an alarm that raises": (
        "class Late(Exception): pass\ndef late(*_): raise Late('late')\n"
        "signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "try: time.sleep(9)\nexcept Late: sys.exit(15)"
    ),
    "SIGCHLD ignored": (
        "import subprocess; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(subprocess.run(['true']).returncode); sys.exit(2)"
    ),
    "sigwait": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), 10)\n"
        "print(signal.sigwait([signal.SIGUSR1])); sys.exit(7)"
    ),
    "faulthandler": "import faulthandler; faulthandler.enable(); os.abort()",
    "faulthandler dumps later": (
        "import faulthandler; faulthandler.dump_traceback_later(30); sys.exit(4)"
    ),
    "stopped and continued": (
        "import subprocess\nsubprocess.Popen(['sh', '-c', f'sleep 0.3; kill -CONT {os.getpid()}'])\n"
        "os.kill(os.getpid(), signal.SIGSTOP); print('again'); sys.exit(6)"
    ),
    # Processes.
    "fork": (
        "sys.stdout.flush()\nif os.fork() == 0:\n    print('child', flush=True); os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1])); sys.exit(4)"
    ),
    "fork whose child goes on": (
        "if os.fork() == 0:\n    print('child'); sys.exit(5)\nos.wait(); print('parent'); sys.exit(6)"
    ),
    "double fork": (
        "r, w = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.write(w, b'grandchild'); os._exit(0)\n    os._exit(0)\n"
        "os.wait(); print(os.read(r, 99)); sys.exit(7)"
    ),
    "a daemon that outlives it": (
        "if os.fork() == 0:\n    os.setsid()\n    for n in range(3): os.close(n)\n"
        "    time.sleep(0.6); os._exit(0)\nsys.exit(9)"
    ),
    "a daemon that holds stderr": (
        "if os.fork() == 0:\n    os.close(1); time.sleep(0.6); os._exit(0)\nsys.exit(10)"
    ),
    "many forks": (
        "for _ in range(20):\n    if os.fork() == 0: os._exit(0)\n"
        "print(sum(os.wait()[1] for _ in range(20)))"
    ),
    "a child dies by a signal": (
        "if os.fork() == 0: os.kill(os.getpid(), 9)\nprint(os.wait()[1]); sys.exit(3)"
    ),
    "waits for any child": "\ntry: os.wait()\nexcept ChildProcessError: print('none'); sys.exit(13)",
    "exec of a shell": "os.execvp('sh', ['sh', '-c', 'echo shell; exit 31'])",
    "exec of Python": "os.execv(sys.executable, [sys.executable, '-c', 'print(1); raise SystemExit(32)'])",
    "exec of itself": (
        "if 'again' in sys.argv: sys.exit(34)\n"
        "os.execv(sys.executable, [sys.executable, sys.argv[0], 'again'])"
    ),
    "exec without variables": (
        "os.execve(sys.executable, [sys.executable, '-c', 'raise SystemExit(35)'], {})"
    ),
    "subprocess of itself": (
        "import subprocess\nif 'again' in sys.argv: print('inner'); sys.exit(36)\n"
        "sys.exit(subprocess.run([sys.executable, sys.argv[0], 'again']).returncode + 1)"
    ),
    "isolated subprocess": (
        "import subprocess\n"
        "sys.exit(subprocess.run([sys.executable, '-I', '-S', '-c', 'raise SystemExit(3)']).returncode)"
    ),
    **{
        f"multiprocessing by {method}": (
            "import multiprocessing as mp\ndef square(x): return x * x\n"
            f"if __name__ == '__main__':\n    mp.set_start_method('{method}')\n"
            "    with mp.Pool(2) as pool: print(pool.map(square, range(5)))\n    sys.exit(3)"
        )
        for method in ("fork", "spawn", "forkserver")
    },
    "process pool": (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def f(x): os._exit(1)\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1) as pool:\n"
        "        try: pool.submit(f, 1).result()\n"
        "        except Exception as e: print(type(e).__name__)\n"
    ),
    "new session": "\ntry: os.setsid()\nexcept OSError: pass\nsys.exit(4)",
    # Descriptors and streams.
    "stdin closed": "os.close(0); sys.exit(3)",
    "stdout closed": "os.close(1)\ntry: print('x', flush=True)\nexcept OSError: sys.exit(4)",
    "stdout closed before a print at the end": "print('x'); os.close(1)",
    "stderr closed": "os.close(2); sys.exit(5)",
    "all closed": "for n in range(3): os.close(n)\nsys.exit(6)",
    "everything closed": "os.closerange(0, 4096); os._exit(7)",
    "everything closed, then an end": "os.closerange(3, 4096); sys.exit(8)",
    "sys.stdout closed": "sys.stdout.close(); sys.exit(9)",
    "sys.stdout is None": "sys.stdout = None; print('nowhere'); sys.exit(10)",
    "sys.stderr is None": "sys.stderr = None; 1/0",
    "sys.stdout raises": (
        "class Out:\n    def write(self, s): raise OSError('no')\n    def flush(self): raise OSError('no')\n"
        "sys.stdout = Out(); sys.exit(11)"
    ),
    "sys.stdout without a flush": "class Out: write = print\nsys.stdout = Out(); sys.exit(12)",
    "stdout is a file": "os.dup2(os.open('out.txt', os.O_CREAT | os.O_WRONLY), 1); print('x'); sys.exit(3)",
    "binary on stdout": "os.write(1, bytes(range(256))); sys.exit(4)",
    "binary from stdin": "print(len(sys.stdin.buffer.read())); sys.exit(5)",
    "stdin iterated": "print(sum(1 for _ in sys.stdin)); sys.exit(6)",
    "input()": "print(input()[:3])",
    "descriptors counted": "print(sorted(map(int, os.listdir('/proc/self/fd')))[:5])",
    "a low limit of descriptors": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)); sys.exit(7)"
    ),
    "no descriptors left": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); sys.exit(8)"
    ),
    "files of no size": (
        "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try: open('big', 'w').write('x' * 99999)\nexcept OSError as e: print(e.errno)\nsys.exit(9)"
    ),
    "dies of a file's size": (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('big', 'wb').write(b'x' * 9999)"
    ),
    "a low limit of memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))\n"
        "try: bytearray(1 << 30)\nexcept MemoryError: sys.exit(10)"
    ),
    "a low limit of processes": (
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); sys.exit(11)"
    ),
    "dies of its CPU time": (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"
    ),
    # Python itself.
    "settrace": "n = [0]\ndef t(*a): n[0] += 1; return t\nsys.settrace(t)\ndef f(): pass\nf(); f(); print(n[0])",
    "setprofile": "n = []\nsys.setprofile(lambda f, e, a: n.append(e))\nlen([])\nsys.setprofile(None); print(len(n))",
    "a trace function that raises": "def t(*a): raise ValueError('traced')\nsys.settrace(t)\ndef f(): pass\nf()",
    "audit hook that refuses": (
        "def hook(name, args):\n    if name == 'open' and 'rec' in str(args[0]): raise RuntimeError('audited')\n"
        "sys.addaudithook(hook); sys.exit(3)"
    ),
    "threads alive at the end": (
        "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start(); sys.exit(4)"
    ),
    "daemon threads alive at the end": (
        "threading.Thread(target=lambda: time.sleep(60), daemon=True).start(); sys.exit(5)"
    ),
    "a thread that raises": "t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); sys.exit(6)",
    "asyncio": (
        "import asyncio\nasync def main():\n    await asyncio.sleep(0.01); print('slept'); sys.exit(7)\n"
        "asyncio.run(main())"
    ),
    "asyncio subprocess": (
        "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec('false')\n"
        "    return await p.wait()\nsys.exit(asyncio.run(main()) + 7)"
    ),
    "subinterpreter": (
        "import _xxsubinterpreters as s\ni = s.create(); s.run_string(i, 'import json, os; os.getpid()')\n"
        "s.destroy(i); sys.exit(8)"
    ),
    # Python ends it at its own end: whoever has registered something in it costs the exit code.
    "subinterpreter that stays": "import _xxsubinterpreters as s\ni = s.create(); sys.exit(8)",
    "subinterpreter that exits": (
        "import _xxsubinterpreters as s\ni = s.create()\n"
        "try: s.run_string(i, 'raise SystemExit(4)')\n"
        "except s.RunFailedError as e: print(e)\nsys.exit(9)"
    ),
    "sys.exit is None": "sys.exit = None; raise SystemExit(9)",
    "os._exit is None": "os._exit = None; sys.exit(3)",
    "print, open and len patched": (
        "import builtins\nbuiltins.print = builtins.len = None\n"
        "builtins.open = lambda *a, **k: 1/0\nsys.exit(10)"
    ),
    "__import__ patched": (
        "import builtins\ndef no(*a, **k): raise ImportError('no')\nbuiltins.__import__ = no; sys.exit(11)"
    ),
    "builtins cleared": "import builtins; builtins.__dict__.clear()",
    "isinstance patched": "import builtins; builtins.isinstance = None; sys.exit(3)",
    "time functions patched": (
        "for n in ('time', 'time_ns', 'monotonic', 'perf_counter', 'perf_counter_ns', 'process_time_ns', 'sleep'):\n"
        "    setattr(time, n, None)\nsys.exit(12)"
    ),
    "time goes backwards": (
        "import itertools; c = itertools.count(0, -1); time.time_ns = time.perf_counter_ns = lambda: next(c); sys.exit(3)"
    ),
    "os functions patched": "os.getpid = os.open = os.write = None; import posix; posix.open = posix.getpid = None; sys.exit(13)",
    "marshal patched": "import marshal; marshal.dumps = None; sys.exit(3)",
    "sys.path emptied": "sys.path.clear(); sys.exit(14)",
    "sys.path is None": "sys.path = None; sys.exit(15)",
    "sys.meta_path emptied": "sys.meta_path.clear(); sys.exit(16)",
    "sys.modules emptied": "sys.modules.clear(); sys.exit(17)",
    "our module removed": "[sys.modules.pop(m) for m in list(sys.modules) if 'timeroof' in m]; sys.exit(3)",
    "sys.argv emptied": "sys.argv[:] = []; sys.exit(18)",
    "environment emptied": "os.environ.clear(); sys.exit(19)",
    "environment hostile": "os.environ['PYTHONHOME'] = '/nonexistent'; os.environ['TMPDIR'] = '/nonexistent'; sys.exit(20)",
    "gc disabled": "import gc; gc.disable(); gc.freeze(); sys.exit(3)",
    "gc callbacks raise": "import gc\ndef cb(*a): raise ValueError('gc')\ngc.callbacks.append(cb); gc.collect(); sys.exit(4)",
    "warnings are errors": "import warnings; warnings.simplefilter('error'); warnings.warn('now')",
    "switch interval": "sys.setswitchinterval(1e-6); sys.exit(5)",
    "locale": "import locale; locale.setlocale(locale.LC_ALL, 'C'); sys.exit(6)",
    "dlopen flags": "sys.setdlopenflags(0x101); sys.exit(7)",
    "display hook": "sys.displayhook = None; sys.exit(8)",
    "frames inspected": "import inspect; print(len(inspect.stack()), __name__, __file__, __spec__)",
    "main module": "import __main__; print(sorted(n for n in vars(__main__) if n.startswith('__')))",
    "modules counted": "print('json' in sys.modules, 'polars' in sys.modules, 'numpy' in sys.modules)",
    "flags": "print(sys.flags, sys.argv, sys.orig_argv[1:])",
    "handlers seen": "print([signal.getsignal(n) is signal.SIG_DFL for n in (1, 10, 12, 13, 15, 17)], signal.getsignal(2))",
    "mask seen": "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "threads seen": "print(threading.active_count(), len(os.listdir('/proc/self/task')))",
    "niceness": "os.nice(5); print(os.nice(0)); sys.exit(3)",
    # Folders and rights.
    "folder removed": "import shutil; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); sys.exit(3)",
    "folder changed": "os.chdir('/'); sys.exit(4)",
    "script removed": "os.remove(sys.argv[0]); sys.exit(5)",
    "script rewritten": "open(sys.argv[0], 'w').write('nonsense ('); sys.exit(6)",
    "umask": "os.umask(0o777); sys.exit(7)",
    "temporary folder emptied": (
        "import glob, shutil, tempfile\n"
        "for p in glob.glob(tempfile.gettempdir() + '/timeroof-*'): shutil.rmtree(p, ignore_errors=True)\n"
        "sys.exit(8)"
    ),
    "records damaged": (
        "import glob, tempfile\n"
        "for p in glob.glob(tempfile.gettempdir() + '/timeroof-*/*'): open(p, 'wb').write(b'\\xff' * 999)\n"
        "sys.exit(9)"
    ),
    "records are folders": (
        "import glob, tempfile\n"
        "for p in glob.glob(tempfile.gettempdir() + '/timeroof-*/*.rec'): os.remove(p); os.mkdir(p)\n"
        "sys.exit(10)"
    ),
    "records are pipes": (
        "import glob, tempfile\n"
        "for p in glob.glob(tempfile.gettempdir() + '/timeroof-*/*.rec'): os.remove(p); os.mkfifo(p)\n"
        "sys.exit(11)"
    ),
    "other user": "\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\nsys.exit(12)",
    "chroot": "\nif os.geteuid() == 0: os.mkdir('jail'); os.chroot('jail'); os.chdir('/')\nsys.exit(13)",
    # Source.
    "syntax error": "def (:\n",
    "indentation": "if True:\nx\n",
    "null byte": "x = 1\0\n",
    "tabs and spaces": "if 1:\n\tx = 1\n        y = 2\n",
    "a future": "from __future__ import annotations\nprint(__annotations__ if False else 'ok')",
    "very long line": "x = '" + "a" * 200_000 + "'\nraise SystemExit(14)",
    "deeply nested": "x = " + "[" * 90 + "]" * 90 + "\nraise SystemExit(15)",
    "argparse": "import argparse; argparse.ArgumentParser().parse_args(['--nope'])",
    "help": "import argparse; argparse.ArgumentParser(prog='p').parse_args(['--help'])",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()\nunittest.main(argv=['x'], verbosity=0, exit=False); sys.exit(16)",
    "pdb at the end of input": "breakpoint()",
    "code that imports itself": "import train; sys.exit(17)",
    "runpy": "import runpy\nif __name__ == '__main__': runpy.run_path(sys.argv[0], run_name='other'); sys.exit(18)",
    "a timer": "t = threading.Timer(0.1, lambda: os._exit(19)); t.start(); time.sleep(9)",
    "logging shut down": "import logging; logging.basicConfig(); logging.error('last'); logging.shutdown(); sys.exit(3)",
    "a socket pair": "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(9)); sys.exit(4)",
    "mmap": "import mmap; m = mmap.mmap(-1, 1 << 20); m[0] = 1; sys.exit(5)",
    "ctypes exit": "import ctypes; print('lost or not'); ctypes.CDLL(None).exit(6)",
    "ctypes _exit": "import ctypes; ctypes.CDLL(None)._exit(7)",
    "lock held at the end": "l = threading.Lock(); l.acquire(); sys.exit(8)",
    "import lock held": "import _imp; _imp.acquire_lock(); sys.exit(9)",
    "a module-level __getattr__": "def __getattr__(n): raise ValueError(n)\nsys.exit(10)",
    "sys.modules of None": "sys.modules['json'] = None; sys.modules['threading'] = None; sys.exit(11)",
    "sys.modules replaced": "sys.modules = {}; sys.exit(12)",
    "torch that is none": "import types; sys.modules['torch'] = types.ModuleType('torch'); import torch; sys.exit(13)",
    "torch that raises": "class T:\n    def __getattr__(self, n): raise RuntimeError(n)\nsys.modules['torch'] = T(); import torch; sys.exit(14)",
}  # fmt: skip

# The same in a program that trains: between steps, with our instruments in place.
TRAINING: dict[str, str] = {
    "time functions patched": "for n in ('time', 'time_ns', 'monotonic', 'perf_counter_ns'): setattr(time, n, None)",
    "builtins patched": "import builtins; builtins.print = builtins.open = None",
    "sys.exit is None": "sys.exit = None",
    "sys.path emptied": "sys.path.clear()",
    "sys.meta_path emptied": "sys.meta_path.clear()",
    "our modules removed": "[sys.modules.pop(m) for m in list(sys.modules) if 'timeroof' in m]",
    "environment emptied": "os.environ.clear()",
    "recursion limit lowered": "sys.setrecursionlimit(120)",
    "folder removed": "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "descriptors closed": "os.closerange(3, 4096)",
    "streams closed": "os.close(1); os.close(0)",
    "stdout replaced": "import io; sys.stdout = io.StringIO()",
    "few descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
    "no descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "files of no size": (
        "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        " resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    ),
    "temporary folder emptied": (
        "import glob, shutil, tempfile; [shutil.rmtree(p, ignore_errors=True)"
        " for p in glob.glob(tempfile.gettempdir() + '/timeroof-*')]"
    ),
    "records damaged": (
        "import glob, tempfile; [open(p, 'wb').write(b'x' * 99)"
        " for p in glob.glob(tempfile.gettempdir() + '/timeroof-*/*')]"
    ),
    "settrace": "sys.settrace(lambda *a: None)",
    "setprofile": "sys.setprofile(lambda *a: None)",
    "gc disabled": "import gc; gc.disable()",
    "warnings are errors": "import warnings; warnings.simplefilter('error')",
    "signals ignored": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 10, 12, 14, 15, 17)]",
    "alarms": (
        "seen = []; signal.signal(signal.SIGALRM, lambda *_: seen.append(1));"
        " signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)"
    ),
    "fork": "\nif os.fork() == 0: step(); os._exit(0)\nos.wait()",
    # Steps of two threads over one model would be a race of the program's own.
    "threads": "threading.Thread(target=lambda: [model(x) for _ in range(3)]).start()",
    "a thread steps": "t = threading.Thread(target=lambda: [step() for _ in range(9)]); t.start(); t.join()",
    "exit between steps": "sys.exit(7)",
    "os._exit between steps": "os._exit(8)",
    "killed between steps": "os.kill(os.getpid(), 9)",
    "abort between steps": "os.abort()",
    "error in a step": "model(torch.ones(3, 3))",
    "memory": "import resource; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))",
    "other user": "\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)",
    "exec": "os.execvp('sh', ['sh', '-c', 'exit 31'])",
    "posix patched": "import posix; posix.open = posix.write = None",
    "torch patched": "torch.nn.Module.__call__ = torch.nn.Module._call_impl; torch.optim.Optimizer.step = None",
    "a profiler of its own": "p = torch.profiler.profile(); p.start(); step(); p.stop()",
    "default dtype and device": "torch.set_default_dtype(torch.float64); torch.set_grad_enabled(True)",
    "threads of torch": "torch.set_num_threads(2)",
    "modules cleared": "sys.modules.clear()",
}  # fmt: skip


def training(name: str) -> str:
    """A training of 12 steps, disturbed after the fifth."""
    head = _HEAD + MODEL + "for _ in range(5): step()\n"
    return f"{head}{TRAINING[name]}\nfor _ in range(7): step()\nos.write(2, b'done\\n')\n"


_NOT_HEADED = {"empty", "only a comment", "syntax error", "indentation", "null byte", "a future"}


def source_of(name: str) -> str:
    """The whole script."""
    return PROGRAMS[name] if name in _NOT_HEADED else _HEAD + PROGRAMS[name] + "\n"
