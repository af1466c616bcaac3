"""Find a pendulum's length and damping from noisy angles, through a differentiable simulator.

The Gauss-Newton method takes the derivatives of the simulated angles in the unknowns from forward mode, and
gives the unknowns' standard errors besides.

python examples/pendulum.py
python examples/pendulum.py --noise 0.05 --length 2.0
"""

from __future__ import annotations

import argparse

import numpy as np

import wengert as wg
from wengert.solve import Event, odeint

GRAVITY = 9.81


def swing(t: wg.Tensor, state: dict[str, wg.Tensor], length: wg.Tensor, damping: wg.Tensor) -> dict[str, wg.Tensor]:
    """Angle and angular velocity of a damped pendulum, not only for small angles."""
    return {
        "angle": state["velocity"],
        "velocity": -GRAVITY / length * wg.sin(state["angle"]) - damping * state["velocity"],
    }


def angles(unknowns: wg.Tensor, ts: np.ndarray) -> wg.Tensor:
    """The angles at `ts` of a pendulum let go at `unknowns[2]`, with the logarithms of length and damping before it."""
    length, damping = wg.exp(unknowns[0]), wg.exp(unknowns[1])
    start = {"angle": unknowns[2], "velocity": 0.0 * unknowns[2]}
    found: wg.Tensor = odeint(swing, start, ts, length, damping)["angle"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Find a pendulum's length and damping from noisy angles.")
    parser.add_argument("--length", type=float, default=1.3, help="true length in metres (default %(default)s)")
    parser.add_argument("--damping", type=float, default=0.15, help="true damping per second (default %(default)s)")
    parser.add_argument(
        "--noise", type=float, default=0.02, help="error of the angles in radians (default %(default)s)"
    )
    parser.add_argument("--points", type=int, default=200, help="measurements in 10 seconds (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a short run")
    args = parser.parse_args()
    if args.quick:
        args.points = 60

    ts = np.linspace(0, 10, args.points)
    true = np.array([np.log(args.length), np.log(args.damping), 2.0])
    noise = args.noise * np.random.default_rng(args.seed).normal(size=args.points)
    measured = angles(wg.asarray(true), ts).numpy() + noise

    guess = np.array([np.log(1.0), np.log(0.5), measured[0]])
    error, normal = np.inf, np.eye(3)
    weight = 1.0  # of the damping of the steps (Levenberg 1944, Marquardt 1963)
    for i in range(50):
        residual = angles(wg.asarray(guess), ts).numpy() - measured
        jacobian = wg.jacobian(lambda u: angles(u, ts), mode="forward")(wg.asarray(guess)).numpy()
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ residual
        error = float(np.sqrt(np.mean(residual**2)))
        print(
            f"iteration {i:2d}  length {np.exp(guess[0]):.4f} m  damping {np.exp(guess[1]):.4f} /s  error {error:.4f}"
        )
        while weight < 1e8:
            move = -np.linalg.solve(normal + weight * np.diag(np.diag(normal)), gradient)
            tried = angles(wg.asarray(guess + move), ts).numpy() - measured
            if np.mean(tried**2) < error**2:
                weight = max(weight / 10, 1e-9)
                break
            weight *= 4
        else:
            break
        guess = guess + move
        if np.abs(move).max() < 1e-8:
            break

    spread = np.sqrt(np.diag(np.linalg.inv(normal))) * error
    failed = False
    for name, unit, k, value in (("length", "m", 0, args.length), ("damping", "/s", 1, args.damping)):
        found = float(np.exp(guess[k]))
        standard = found * spread[k]
        failed |= abs(found - value) > 4 * standard + 1e-6
        print(f"{name:8s}{found:.4f} +- {standard:.4f} {unit}   (true {value})")

    def period(length: wg.Tensor) -> wg.Tensor:
        """Twice the time from one side to the other: the velocity passes through 0."""
        start = {"angle": wg.asarray(0.5), "velocity": wg.asarray(0.0)}
        event = Event(lambda t, s, *_: s["velocity"], direction=1)
        half: wg.Tensor = odeint(swing, start, [0.0, 20.0], length, 0.0, rtol=1e-6, event=event).event_t[0]
        return 2 * half

    # Undamped, the period grows with the root of the length.
    seconds, slope = wg.value_and_grad(period)(wg.tensor(args.length))
    print(f"period   {seconds.item():.4f} s, and {slope.item():.4f} s more for each metre of length")
    failed |= abs(slope.item() - 0.5 * seconds.item() / args.length) > 1e-2
    if failed:
        parser.exit(1, "pendulum: the truth was not recovered within 4 standard errors\n")


if __name__ == "__main__":
    main()
