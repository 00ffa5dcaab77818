"""What every trial on a cluster must show: readers of ours lose and repeat nothing."""

from __future__ import annotations

from proving.trials.accounts import Account, table
from proving.trials.run import is_kept


def check_kept(accounts: list[Account], *ours: str) -> None:
    """`make prove` shows the tables with -s, and those of a test that fails."""
    print(f"\n{table(accounts)}")
    found = {account.reader: account for account in accounts}
    assert set(ours) <= found.keys()
    assert all(map(is_kept, accounts)), table(accounts)
    assert all(account.acknowledged for account in accounts)
