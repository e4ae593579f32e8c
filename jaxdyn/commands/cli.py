"""The command line. It exits with 0 if all is well, 1 if a problem was found, 2 for wrong use, 130 if it was
interrupted and 143 if it was terminated."""

import argparse
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path

import jax

from ..loaders.load import load
from ..model.model import Model
from ..robots.shipped import SHIPPED, missing
from .terminal import Terminated, leave, tell, terminal

OK, PROBLEM, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
#: choices of `--integrator`, the default first
METHODS = ("euler", "leapfrog", "rk4", "midpoint", "gauss")
#: choices of `--contacts`, the default first
CONTACTS = ("auto", "newton", "admm", "pgs")
#: examples of `simulate`
SIMULATIONS = (
    "jaxdyn simulate cassie.sdf --batch 256 --seconds 2 --out traj.npz --plot traj.png",
    "jaxdyn simulate four_bar --integrator midpoint --project --out traj.npz",
    "jaxdyn simulate go1.urdf --floating --contacts --ground --touch '*foot*' --plot forces.png",
)


class WrongUse(Exception):
    """Raised for a mistake on the command line."""


def number(kind, allowed: Callable[[float], bool], what: str):
    """Return an argparse type for finite numbers that are `allowed`; `what` names such numbers in error messages."""

    def read(text: str):
        try:
            value = kind(text)
            size = float(value)
        except ValueError:
            whole = "whole " if kind is int else ""
            raise argparse.ArgumentTypeError(f"{_short(text)!r} is not a {whole}number") from None
        except OverflowError:
            size = float("inf")
        if not abs(size) < float("inf") or not allowed(value):
            raise argparse.ArgumentTypeError(f"{_short(text)} is not {what}")
        return value

    return read


def positive(kind):
    """Return an argparse type for finite numbers above zero."""
    return number(kind, lambda x: x > 0, "a positive number")


FINITE = number(float, lambda x: True, "a finite number")
#: type of the ground's friction
FRICTION = number(float, lambda x: x >= 0, "a number from 0 on")
#: type of the seed of random numbers
SEED = number(int, lambda x: 0 <= x < 2**64, "a whole number from 0 to 2**64 - 1")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}... ({len(text)} characters)"


def open_model(source: str, floating: bool | None = None, **options) -> tuple[Model, list[str]]:
    """Return the model of a file or of a shipped robot, and the warnings of `load`, to which the `options` are passed.

    **Raises** `WrongUse` if there is no such file, and the loaders' errors for an invalid file.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not Path(source).exists() and source not in SHIPPED:
            raise WrongUse(missing(source))
        model = load(source, floating=floating, **options)
    return model, [str(w.message) for w in caught]


def _model_of(args, **options) -> Model:
    model, told = open_model(args.model, args.floating, **options)
    for text in told:
        tell(f"warning: {text}", sys.stderr)
    return model


def _info(args) -> int:
    from .info import clusters, describe, programs

    model = _model_of(args)
    print(describe(model))
    if model.constraints:
        print("\n" + clusters(model))
    if model.nb:
        print("\n" + programs(model))
    return OK


def _check(args) -> int:
    from .check import check

    return check(args.model, lambda: open_model(args.model, args.floating), strict=args.strict, seed=args.seed)


@contextmanager
def _before_work():
    """Turn each `ValueError` in the block into `WrongUse`, because it is a mistake on the command line."""
    try:
        yield
    except ValueError as error:
        raise WrongUse(str(error)) from None


def _check_outputs(args) -> None:
    """Raise `ValueError` for output files that cannot be written, or that are one file."""
    from .output import check_apart, check_arrays, check_picture, check_writable

    plot = getattr(args, "plot", None)
    if args.out is not None:
        check_writable(args.out)
    if plot is not None:
        check_picture(plot)
    check_apart(args.out, plot)
    if args.out and args.command != "bench":
        check_arrays(args.out)


def _simulate(args) -> int:
    from .rollouts import check_contacts, check_memory, run, steps_of
    from .touching import touching

    if args.ground is not None and not args.contacts:
        raise WrongUse("--ground: without --contacts nothing touches it; give both.")
    if args.touch and not args.contacts:
        raise WrongUse("--touch: without --contacts nothing touches; give both.")
    if not args.out and not args.plot:
        raise WrongUse("name a file for the result: --out traj.npz, --plot traj.png, or both.")
    with _before_work():
        _check_outputs(args)
        if args.every is None:
            args.every = 10 if steps_of(args.seconds, args.dt, 1).total % 10 == 0 else 1
        steps = steps_of(args.seconds, args.dt, args.every)
    model = _model_of(args) if not args.contacts else _model_of(args, ground=args.ground, collision="all")
    with _before_work():
        if args.touch:
            model = touching(model, args.touch)
        if args.contacts:
            check_contacts(model, args.contacts, args.integrator)
        check_memory(model, args.batch, steps, args.contacts is not None)
        if args.keyframe is not None:
            model.keyframe(args.keyframe)
    return run(
        model,
        batch=args.batch,
        seconds=args.seconds,
        dt=args.dt,
        speed=args.speed,
        seed=args.seed,
        every=args.every,
        integrator=args.integrator,
        project=args.project,
        contacts=args.contacts,
        keyframe=args.keyframe,
        out=args.out,
        plot=args.plot,
    )


def _bench(args) -> int:
    from .bench import run

    with _before_work():
        _check_outputs(args)
    sources = args.model or ["four_bar", "strider"]
    models = [(s, open_model(s)[0]) for s in sources]
    return run(models, batch=args.batch, repeats=args.repeats, out=args.out)


def _demo(args) -> int:
    from .demo import CHUNK, DT, run
    from .rollouts import steps_of

    if args.batch < 8:
        raise WrongUse("--batch: the demo needs 8 rollouts or more, for the differences that it takes.")
    with _before_work():
        _check_outputs(args)
        steps_of(args.seconds, DT * CHUNK, 1, step="the demo's")
    return run(batch=args.batch, seconds=args.seconds, out=args.out, plot=args.plot, shipped=args.shipped)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and options."""
    top = argparse.ArgumentParser(
        prog="jaxdyn",
        description="Dynamics of robots with closed loops: look at a model, check it, simulate it, measure speed.",
        epilog=_examples(
            "jaxdyn info cassie.sdf",
            "jaxdyn check robot.yaml",
            "jaxdyn simulate strider --batch 64 --seconds 2 --out traj.npz --plot traj.png",
            "jaxdyn demo",
            tail="exit codes: 0 all is well, 1 a problem was found, 2 wrong use, 130 interrupted, 143 terminated",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    from .. import __version__

    top.add_argument("--version", action="version", version=f"jaxdyn {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    def add(name, what, run, *examples, model=True, float32=True, takes="MODEL "):
        command = commands.add_parser(
            name,
            help=what,
            usage=f"jaxdyn {name} {takes}[options]",  # options with values that may be left out would take it
            description=what[0].upper() + what[1:] + ".",
            epilog=_examples(*examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run, float32=False, floating=None)
        if model:
            shipped = " or ".join(SHIPPED)
            command.add_argument(
                "model", metavar="MODEL", help=f"URDF, URDF+, SDF, MJCF or robot.yaml; or a shipped robot: {shipped}"
            )
            base = command.add_mutually_exclusive_group()
            base.add_argument(
                "--floating", action="store_true", default=None, help="let the base float (default: as the file says)"
            )
            base.add_argument("--fixed", dest="floating", action="store_false", default=None, help="fix the base")
        if float32:
            command.add_argument("--float32", action="store_true", help="single precision (default: double)")
        return command

    add("info", "what is in a model", _info, "jaxdyn info cassie.sdf", "jaxdyn info four_bar", float32=False)
    command = add(
        "check",
        "load a model, close its loops, compare solvers, and say what is wrong with the file",
        _check,
        "jaxdyn check robot.urdf",
        "jaxdyn check cassie.sdf --strict",
        float32=False,
    )
    command.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    command.add_argument("--seed", type=SEED, default=0, help="seed of the random states (default: 0)")
    command = add(
        "simulate",
        "simulate a batch of rollouts from random velocities, without motor torques or from a keyframe, and save them",
        _simulate,
        *SIMULATIONS,
    )
    _simulate_options(command)
    command = add(
        "bench",
        "CPU time per evaluation on one core, next to the peers that are installed (pin, MJX)",
        _bench,
        "jaxdyn bench",
        "jaxdyn bench talos.urdf --batch 4096",
        model=False,
        float32=False,
        takes="[MODEL ...] ",
    )
    command.add_argument(
        "model", metavar="MODEL", nargs="*", help="robots to measure (default: those that are shipped)"
    )
    command.add_argument("--batch", type=positive(int), default=512, metavar="N", help="default: 512")
    command.add_argument("--repeats", type=positive(int), default=5, metavar="N", help="best of N (default: 5)")
    command.add_argument("--out", metavar="FILE.json", help="where the numbers go")
    command = add(
        "demo",
        "256 rollouts of the biped Cassie with its loops closed, and the gradient of one",
        _demo,
        "jaxdyn demo",
        "jaxdyn demo --shipped --batch 32",
        model=False,
        float32=False,
        takes="",
    )
    _demo_options(command)
    return top


def _demo_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--batch", type=positive(int), default=256, metavar="N", help="how many rollouts (default: 256)"
    )
    command.add_argument(
        "--seconds",
        type=positive(float),
        default=1.0,
        metavar="T",
        help="how long, a multiple of 0.02 s (default: 1)",
    )
    command.add_argument("--shipped", action="store_true", help="use the robot that jaxdyn ships, not Cassie")
    command.add_argument("--out", default="traj.npz", metavar="FILE.npz", help="default: traj.npz")
    command.add_argument("--plot", default="traj.png", metavar="FILE.png", help="default: traj.png")


def _simulate_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--batch", type=positive(int), default=1, metavar="N", help="how many rollouts (default: 1)")
    command.add_argument("--seconds", type=positive(float), default=1.0, metavar="T", help="how long (default: 1)")
    command.add_argument("--dt", type=positive(float), default=1e-3, help="time step in seconds (default: 0.001)")
    command.add_argument(
        "--speed",
        type=FINITE,
        default=0.5,
        help="size of the random start velocities (default: 0.5)",
    )
    command.add_argument("--seed", type=SEED, default=0, help="seed of the start velocities (default: 0)")
    command.add_argument("--keyframe", metavar="NAME", help="the file's state to start from; its commands are held")
    command.add_argument(
        "--every",
        type=positive(int),
        metavar="K",
        help="save each K-th step (default: 10 if that divides, or 1)",
    )
    command.add_argument("--integrator", choices=METHODS, default=METHODS[0], help=f"default: {METHODS[0]}")
    command.add_argument("--project", action="store_true", help="close the loops to rounding after every step")
    command.add_argument(
        "--contacts",
        nargs="?",
        choices=CONTACTS,
        const=CONTACTS[0],
        help="contact law: shapes touch, joints stop at their limits and have dry friction "
        f"(default, where no law is named: {CONTACTS[0]})",
    )
    command.add_argument(
        "--touch", nargs="+", metavar="SHAPE", help="shapes that may touch, such as '*foot*' (default: all)"
    )
    command.add_argument(
        "--ground",
        nargs="?",
        type=FRICTION,
        const=True,
        metavar="FRICTION",
        help="add the plane z = 0, with this coefficient of friction (default: 1)",
    )
    command.add_argument(
        "--out", metavar="FILE.npz", help="where the trajectories go: t, q, v; with contacts also force, gap, pairs"
    )
    command.add_argument("--plot", metavar="FILE.png", help="where a picture goes")


def _examples(*lines: str, tail: str = "") -> str:
    return "examples:\n" + textwrap.indent("\n".join(lines), "  ") + (f"\n\n{tail}" if tail else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code. For `--help` and unknown options argparse raises `SystemExit`.

    Without `argv` the command is that of the process, which ends here if it is interrupted.
    """
    with terminal():
        code = _run(parser().parse_args(argv))
    if argv is None and code in (INTERRUPTED, TERMINATED):
        leave(code)
    return code


def _run(args) -> int:
    before, code = jax.config.jax_enable_x64, OK
    try:
        if args.command != "bench":
            jax.config.update("jax_enable_x64", not args.float32)
        code = args.run(args)
        sys.stdout.flush()
        return code
    except WrongUse as error:
        return _say(args, error, USAGE)
    except Terminated:
        return _say(args, "terminated; no file was left half written.", TERMINATED)
    except KeyboardInterrupt:
        return _say(args, "interrupted; no file was left half written.", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        return code
    except MemoryError:
        return _say(args, "out of memory: make --batch smaller", PROBLEM)
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, jax.errors.JaxRuntimeError) as error:
        return _say(args, error, PROBLEM)
    finally:
        jax.config.update("jax_enable_x64", before)


def _say(args, error: object, code: int) -> int:
    tell(f"jaxdyn {args.command}: {error}", sys.stderr)
    return code
