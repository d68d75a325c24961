"""docs/notices.md says what the code does."""

from spotrun.hooks.notices import alibaba, aws, azure, gcp, tencent
from spotrun.hooks.notices.clouds import clouds
from spotrun.hooks.notices.notice import Kind
from tests.lab.root import REPOSITORY

_ADDRESSES = {
    module.__name__.rpartition(".")[2]: module.SERVICE.address
    for module in (alibaba, aws, azure, gcp, tencent)
}
_PAGE = (REPOSITORY / "docs/notices.md").read_text()


def test_page_tells_address_and_interval_of_each_cloud() -> None:
    """In one line."""
    assert {it.name for it in clouds()} == set(_ADDRESSES)
    for source in clouds():
        line = f"| {source.name} | `{_ADDRESSES[source.name]}` | {source.interval:g} s |"
        assert line.casefold() in _PAGE.casefold()


def test_page_tells_all_kinds() -> None:
    """A program may have to know them."""
    (line,) = [it for it in _PAGE.splitlines() if it.startswith("| `kind` |")]
    assert {f"`{kind}`" for kind in Kind} == set(line.split("|")[2].replace(",", "").split())
