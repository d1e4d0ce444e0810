from __future__ import annotations

import importlib
import sys

import pytest

from quarto.errors import MissingExtraError


@pytest.mark.parametrize(
    ("module", "library", "extra"), [("quarto.env", "gymnasium", "rl"), ("quarto.openspiel", "pyspiel", "openspiel")]
)
def test_a_missing_library_is_one_line_that_names_the_extra(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [name for name in sys.modules if name == module or name.startswith((f"{module}.", f"{library}."))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError) as raised:
        importlib.import_module(module)
    advice = f"install its extra: in a clone, .venv/bin/pip install -e '.[{extra}]'"
    assert str(raised.value) == f"{module} needs {library}: {advice}"
    assert isinstance(raised.value, ImportError)
