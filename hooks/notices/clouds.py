"""The clouds that give notice by a metadata service."""

from spotrun.hooks.notices.alibaba import Alibaba
from spotrun.hooks.notices.aws import Aws
from spotrun.hooks.notices.azure import Azure
from spotrun.hooks.notices.gcp import Gcp
from spotrun.hooks.notices.notice import NoticeSource
from spotrun.hooks.notices.tencent import Tencent


def clouds() -> list[NoticeSource]:
    """Return a source for each, at its real address; this host is in one of them, or in none."""
    return [Aws(), Gcp(), Azure(), Alibaba(), Tencent()]
