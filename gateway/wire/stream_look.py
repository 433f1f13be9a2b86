"""What every look at a streamed answer begins with: nothing is known yet, and nothing is over."""

from gateway.errors import UpstreamError
from gateway.wire.whole_look import WholeLook


class StreamLook(WholeLook):
    """The fields of a ``StreamView``, those of a whole answer among them; each format's own ``feed`` fills them."""

    __slots__ = ("done", "error", "visible")

    def __init__(self) -> None:
        super().__init__()
        self.visible = False
        self.done = False
        self.error: UpstreamError | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more is of interest: the end mark came, or an error."""
        return self.done or self.error is not None
