"""Whatever breaks between spotrun and an S3 server: no false success, and no harm."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from spotrun.images.backends.base import Backend, ObjectChanged, ObjectExists, ObjectMissing
from spotrun.images.backends.s3 import open_s3
from spotrun.images.errors import StoreDenied, StoreUnavailable
from spotrun.images.patience import Patience
from tests.fakes.seaweed import NAME, SECRET, USER, Bucket, Seaweed
from tests.faults.s3_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.s3

_PATIENCE = Patience(request=1.5, total=20)
_LATE = 2.0
_PACK = bytes(range(256)) * 32 * 1024
_FOR_GOOD = 1000
_PASSING = [it for it in Fault if it is not Fault.EXPIRED]
_EACH = pytest.mark.parametrize("fault", _PASSING, ids=lambda it: it.name)


@pytest.fixture
def proxy(seaweed: Seaweed) -> Iterator[FaultyProxy]:
    """Give a proxy that breaks nothing yet."""
    with FaultyProxy(seaweed.port, late=_LATE) as started:
        yield started


@pytest.fixture
def store(proxy: FaultyProxy, bucket: Bucket) -> Backend:
    """Give an empty store behind the proxy."""
    return open_s3(bucket.url(endpoint=proxy.endpoint), _PATIENCE)


@pytest.fixture
def direct(bucket: Bucket) -> Backend:
    """Give the same store as another host sees it."""
    return open_s3(bucket.url(), _PATIENCE)


@_EACH
def test_write_arrives(fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy) -> None:
    """A pack is there, whole."""
    proxy.plan(fault)
    store.put("pack", [_PACK[:1000], _PACK[1000:]])
    assert direct.get("pack") == _PACK


@_EACH
def test_read_is_right(fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy) -> None:
    """Of a whole object, of a range, and of the next one."""
    direct.put("pack", _PACK)
    direct.put("other", b"other")
    for read, expected in (
        (partial(store.get, "pack"), _PACK),
        (partial(store.read, "pack", 1000, 5000), _PACK[1000:6000]),
    ):
        proxy.plan(fault)
        assert read() == expected
        assert store.get("other") == b"other"


@_EACH
def test_list_is_whole(fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy) -> None:
    """No entry is left out or comes twice."""
    for key in ("a", "b", "c"):
        direct.put(key, b"")
    proxy.plan(fault)
    assert [it.key for it in store.list()] == ["a", "b", "c"]


@_EACH
def test_delete_is_done(fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy) -> None:
    """Of those that were named, and no others."""
    for key in ("a", "b", "c"):
        direct.put(key, b"")
    proxy.plan(fault)
    store.delete(["a", "c"])
    assert [it.key for it in direct.list()] == ["b"]


@_EACH
def test_creation_is_ours(
    fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Also when its acknowledgement got lost and the second try finds the first one's work."""
    proxy.plan(fault)
    tag = store.create("lease", b"mine")
    assert direct.get_tagged("lease") == (b"mine", tag)


@_EACH
def test_replacement_is_ours(
    fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Likewise, and it can be replaced again."""
    old = direct.create("lease", b"1")
    proxy.plan(fault)
    tag = store.replace("lease", b"2", old)
    assert direct.get_tagged("lease") == (b"2", tag)
    store.replace("lease", b"3", tag)


@_EACH
def test_creation_of_another_is_not_ours(
    fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Their object stays."""
    direct.create("lease", b"theirs")
    proxy.plan(fault)
    with pytest.raises(ObjectExists):
        store.create("lease", b"mine")
    assert direct.get("lease") == b"theirs"


@_EACH
def test_replacement_by_another_is_not_ours(
    fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Their object stays."""
    old = direct.create("lease", b"1")
    direct.replace("lease", b"theirs", old)
    proxy.plan(fault)
    with pytest.raises(ObjectChanged):
        store.replace("lease", b"mine", old)
    assert direct.get("lease") == b"theirs"


def test_replacement_that_was_replaced_is_lost(
    store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Ours arrived, its acknowledgement got lost, and another came before the second try."""
    old = direct.create("lease", b"1")

    def another() -> None:
        direct.replace("lease", b"theirs", direct.get_tagged("lease")[1])

    proxy.plan(Fault.LOST_REPLY, another)
    with pytest.raises(ObjectChanged):
        store.replace("lease", b"mine", old)
    assert direct.get("lease") == b"theirs"


def test_creation_that_was_deleted_is_done_again(
    store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Ours arrived, its acknowledgement got lost, and another deleted it."""
    proxy.plan(Fault.LOST_REPLY, lambda: direct.delete(["lease"]))
    store.create("lease", b"mine")
    assert direct.get("lease") == b"mine"


def test_late_write_of_a_replaced_object_changes_nothing(
    store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """The server does the first try after the second one and the next replacement."""
    old = direct.create("lease", b"1")
    proxy.plan(Fault.LATE)
    tag = store.replace("lease", b"2", old)
    store.replace("lease", b"3", tag)
    time.sleep(_LATE)
    assert direct.get("lease") == b"3"


@pytest.mark.parametrize("fault", [Fault.ERROR_500, Fault.ERROR_503, Fault.LOST_REQUEST])
def test_trouble_in_a_row_is_waited_out(
    fault: Fault, store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """Each try is one request: nothing else in the client tries again."""
    proxy.plan(*[fault] * 4)
    store.put("it", b"it")
    assert proxy.seen == ["PUT"] * 5
    assert direct.get("it") == b"it"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.ERROR_503, "SlowDown it is (SlowDown)"),
        (Fault.LOST_REQUEST, "the connection broke"),
        (Fault.LATE, "it does not answer in time"),
    ],
)
def test_trouble_without_end_is_told(
    fault: Fault, reason: str, proxy: FaultyProxy, bucket: Bucket, direct: Backend
) -> None:
    """In one sentence, in bounded time, and never as success."""
    store = open_s3(bucket.url(endpoint=proxy.endpoint), Patience(request=0.4, total=1))
    calls: list[Callable[[], object]] = [
        partial(store.put, "it", b""),
        partial(store.create, "it", b""),
        partial(store.delete, ["it"]),
        partial(store.get, "it"),
        lambda: list(store.list()),
    ]
    for call in calls:
        proxy.plan(*[fault] * _FOR_GOOD)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert time.monotonic() - began < 3
        assert str(caught.value) == f"store {store} cannot be used: {reason}"
    if fault is not Fault.LATE:
        with pytest.raises(ObjectMissing):
            direct.get("it")


def test_write_without_any_acknowledgement_is_no_success(
    proxy: FaultyProxy, bucket: Bucket
) -> None:
    """Though it has arrived."""
    store = open_s3(bucket.url(endpoint=proxy.endpoint), Patience(request=0.4, total=1))
    for write in (partial(store.put, "it", b"1"), partial(store.create, "other", b"1")):
        proxy.plan(*[Fault.LOST_REPLY] * _FOR_GOOD)
        with pytest.raises(StoreUnavailable):
            write()


def test_expired_credentials_are_read_anew(
    proxy: FaultyProxy, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a profile has got in the meantime."""
    profile = _profile(tmp_path / "credentials", monkeypatch)
    profile("expired", "expired")
    store = open_s3(bucket.url(endpoint=proxy.endpoint), _PATIENCE)
    profile(USER, SECRET)
    proxy.plan(Fault.EXPIRED)
    store.put("it", b"it")
    assert store.get("it") == b"it"
    assert proxy.seen == ["PUT", "PUT", "GET"]


def test_credentials_that_stay_expired_are_told(
    store: Backend, direct: Backend, proxy: FaultyProxy
) -> None:
    """After one more try, for waiting does not help."""
    proxy.plan(*[Fault.EXPIRED] * _FOR_GOOD)
    with pytest.raises(StoreDenied, match=r"ExpiredToken it is \(ExpiredToken\)$"):
        store.put("it", b"it")
    assert proxy.seen == ["PUT", "PUT"]
    with pytest.raises(ObjectMissing):
        direct.get("it")


def test_refusal_is_not_tried_again(
    proxy: FaultyProxy, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is an object that is missing, or a condition that does not hold."""
    _profile(tmp_path / "credentials", monkeypatch)("unknown", "unknown")
    store = open_s3(bucket.url(endpoint=proxy.endpoint), _PATIENCE)
    with pytest.raises(StoreDenied):
        store.put("it", b"")
    assert proxy.seen == ["PUT"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = open_s3(bucket.url(endpoint=proxy.endpoint), _PATIENCE)
    store.create("it", b"1")
    proxy.plan()
    with pytest.raises(ObjectMissing):
        store.get("absent")
    with pytest.raises(ObjectExists):
        store.create("it", b"2")
    assert proxy.seen == ["GET", "PUT", "GET"]


def test_many_writers_in_bad_weather(
    store: Backend, direct: Backend, proxy: FaultyProxy, seaweed: Seaweed
) -> None:
    """Every object is right in the end, and no upload is left unfinished."""
    chance = random.Random(7)  # the same weather every time
    proxy.plan(*[chance.choice([*_PASSING, lambda: None]) for _ in range(32)])
    contents = {f"pack-{number}": bytes([number]) * 3_000_000 for number in range(16)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store.put, contents, contents.values()))
    assert {it.key: direct.get(it.key) for it in direct.list()} == contents
    assert "Uploads" not in seaweed.client().list_multipart_uploads(Bucket=NAME)


def _profile(file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let credentials come from a file; return what writes it."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def write(key: str, secret: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")

    return write
