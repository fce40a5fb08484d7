"""A ledger file has one name: under a second one, charges would go to a separate log."""

import os
import stat

import pytest

from dperm.accounting import SqliteLedger, open_ledger
from dperm.accounting.ledger import store
from dperm.errors import LedgerError

DELTA = 1e-6


def charge(ledger):
    ledger.charge(epsilon=0.1, delta=DELTA)


def test_a_hard_link_is_refused_under_both_names_also_after_opening(ledger, tmp_path):
    charge(ledger)
    os.link(ledger.path, tmp_path / "other.db")
    for use in (lambda: charge(ledger), lambda: SqliteLedger(tmp_path / "other.db", "adult")):
        with pytest.raises(LedgerError, match=r"second name.*Remove all names but one"):
            use()
    os.remove(tmp_path / "other.db")
    charge(ledger)
    assert len(ledger.history()) == 2


def test_a_creation_that_was_killed_after_the_file_got_its_name(ledger):
    os.link(ledger.path, f"{ledger.path}.0123456789abcdef.new")
    charge(ledger)
    assert os.stat(ledger.path).st_nlink == 1


def test_a_symbolic_link_is_the_same_ledger(ledger, tmp_path):
    os.symlink(ledger.path, tmp_path / "link.db")
    charge(open_ledger(tmp_path / "link.db", "adult"))
    charge(ledger)
    assert len(ledger.history()) == 2


@pytest.mark.parametrize(
    ("point", "mounted"), [("/srv/budget.db", True), ("/srv", False), ("/srv/bud\\040get.db", False)]
)
def test_a_mounted_file_is_recognised(tmp_path, point, mounted):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 8:1 /a {point} rw - ext4 /dev/sda rw\n")
    assert store.is_mounted("/srv/budget.db", str(mounts)) is mounted
    assert store.is_mounted("/srv/bud get.db", str(mounts)) is (point == "/srv/bud\\040get.db")
    assert not store.is_mounted("/srv/budget.db", str(tmp_path / "missing"))


def test_a_mounted_file_is_refused(ledger, monkeypatch):
    store.discard(ledger.path)
    monkeypatch.setattr(store, "is_mounted", lambda path: True)
    with pytest.raises(LedgerError, match="Mount the folder"):
        charge(ledger)


def test_files_are_for_their_owner_alone(ledger):
    charge(ledger)
    names = [ledger.path, f"{ledger.path}-count"]
    assert [stat.S_IMODE(os.stat(name).st_mode) for name in names] == [0o600, 0o600]
