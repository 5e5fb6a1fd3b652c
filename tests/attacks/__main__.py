"""Attacks a broker beside an innocent group, and prints the effect on that group.

    python -m tests.attacks
    python -m tests.attacks --attack tags --attack gone

Exits 1 if a member was evicted, the broker died, or memory was not released.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import asdict

from tests.attacks import brokers
from tests.attacks.attack import Attack, Outcome, play
from tests.attacks.consumer_groups import CONSUMER_GROUPS
from tests.attacks.freezing import FREEZING
from tests.attacks.harmless import HARMLESS

ATTACKS = {each.name: each for each in [*FREEZING, *HARMLESS, *CONSUMER_GROUPS]}
KFAKE = "kfake -port {port}"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.attacks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--attack", action="append", choices=sorted(ATTACKS))
    parser.add_argument("--frozen", action="store_true", help="those of the table only")
    parser.add_argument(
        "--broker", choices=("kohort", "kfake", "kafka"), default="kohort"
    )
    parser.add_argument(
        "--command", help="starts it: with {port}, in place of `kohort serve`"
    )
    parser.add_argument("--data-dir", action="store_true", help="for every attack")
    parser.add_argument("--json", action="store_true", help="a line for each attack")
    return parser.parse_args()


def _broker(
    asked: argparse.Namespace, attack: Attack
) -> contextlib.AbstractContextManager[brokers.BrokerProcess]:
    """A separate broker for each attack."""
    command = asked.command
    if asked.broker == "kohort":
        data = attack.data or asked.data_dir
        return brokers.kohort(
            attack.config, data=data, command=command or brokers.KOHORT
        )
    if asked.broker == "kfake":
        return brokers.commanded(command or KFAKE)
    config = {**brokers.NO_DELAY, **attack.config}
    if command is None:
        return brokers.kafka(config)
    return brokers.commanded(
        command, [f"--override={key}={value}" for key, value in config.items()]
    )


def _row(attack: Attack, outcome: Outcome) -> str:
    quiet, attacked = outcome.quiet, outcome.attacked
    before, peak, after = outcome.memory
    noticed = "the innocent is not answered"
    if attacked is not None:
        ratio = attacked.p99 / quiet.p99
        noticed = (
            f"p99 {quiet.p99 * 1e3:.1f} -> {attacked.p99 * 1e3:.1f} ms (x{ratio:.1f}), "
            f"longest {attacked.longest * 1e3:.0f} ms "
            f"(quiet {quiet.longest * 1e3:.0f}), "
            f"evicted {attacked.evicted}, rebalances {attacked.rebalances}, "
            f"lost {attacked.lost}"
        )
    return (
        f"{attack.name}: {attack.what}\n"
        f"  {noticed}\n"
        f"  memory {before:.0f}, peak {peak:.0f}, after {after:.0f} MB; "
        f"sockets {outcome.sockets[0]}, after {outcome.sockets[1]}; "
        f"{'alive' if outcome.is_alive else 'DEAD'}; took {outcome.seconds:.1f} s\n"
        f"  {outcome.answer}"
    )


def main() -> int:
    """Plays the chosen attacks."""
    asked = _asked()
    names = asked.attack or [each.name for each in FREEZING]
    if not asked.attack and not asked.frozen:
        names += [each.name for each in [*HARMLESS, *CONSUMER_GROUPS]]
    failed = 0
    for name in names:
        attack = ATTACKS[name]
        with _broker(asked, attack) as broker:
            outcome = play(attack, broker)
        if asked.json:
            print(json.dumps({"attack": name, **asdict(outcome)}), flush=True)
        else:
            print(_row(attack, outcome), flush=True)
        found = outcome.found()
        for each in found:
            print(f"  WRONG: {each}", flush=True)
        failed += bool(found)
    print(f"{len(names)} attacks, {failed} did harm", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
