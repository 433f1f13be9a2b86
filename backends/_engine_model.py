"""Whether the engine's files can be what they should, and what to do where one is not there yet."""

import importlib.util
from pathlib import Path

from embedded_engine.errors import ModelNotFound, NoChatTemplate
from embedded_engine.known_models import KNOWN_MODELS
from embedded_engine.models import find_model, hub_id
from gateway.errors import ConfigurationError
from gateway.facts import Needs


def model_needs(model: str, model_dir: Path, *, where: str = "model") -> Needs:
    """What is missing of the model: nothing, or a pull.

    Raises:
        ConfigurationError: there is no such model, and no such file.
    """
    try:
        find_model(model, model_dir)
    except ModelNotFound as error:
        if model in KNOWN_MODELS or hub_id(model):
            return Needs(missing=(f"model {model} is not pulled yet: run `headrace model pull {model}`",))
        raise ConfigurationError(str(error), where=where) from error
    return Needs()


def check_template(path: str) -> None:
    """See to it that a chat template can be read.

    Raises:
        ConfigurationError: there is no such file, or it is no Jinja.
    """
    try:
        source = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", where="chat_template") from error
    if importlib.util.find_spec("jinja2") is None:
        return
    from embedded_engine.chat_template import ChatTemplate  # noqa: PLC0415 - Jinja comes with the engine's extra

    try:
        ChatTemplate(source, bos_text="", eos_text="")
    except NoChatTemplate as error:
        raise ConfigurationError(f"{path}: {error}", where="chat_template") from error
