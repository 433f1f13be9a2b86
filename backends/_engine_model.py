"""Whether the engine's model can be there at all, and what to do where it is not there yet."""

from pathlib import Path

from embedded_engine.errors import ModelNotFound
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
