"""What the API says of each member stands alone: pages and clients show one at a time."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

from pydantic import BaseModel

from armory.web import rest
from armory.web.rest.routes import Answer, Shape

LEANING = re.compile(r"(The same|Likewise|Its|That|Those|Of|Which|Since|For administrators)\b")


def models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def test_descriptions_stand_alone() -> None:
    for module in pkgutil.walk_packages(rest.__path__, f"{rest.__name__}."):
        importlib.import_module(module.name)
    every = {*models(Shape), *models(Answer)}
    assert len(every) > 50
    leaning = [
        f"{model.__name__}.{name}: {field.description}"
        for model in every
        for name, field in model.model_fields.items()
        if LEANING.match(field.description or "")
    ]
    assert sorted(leaning) == []
