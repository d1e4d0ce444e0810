"""Rules by name, for environments that are made from a line of text.

Names are those of yamls, which this package does not read. It asks the layer that does, and names it by a string, as
Gymnasium's registry names an environment. So nothing is imported from above unless somebody gives a name instead of
``Rules``.
"""

from __future__ import annotations

from importlib import import_module

from quarto.rules import Rules

RESOLVER = "runners.arena.config_groups"


def rules_named(rules: Rules | str) -> Rules:
    """``rules``, or those of ``conf/rules/NAME.yaml``. Raises ``RequestError`` for a name that does not exist."""
    if isinstance(rules, Rules):
        return rules
    found: Rules = import_module(RESOLVER).load_rules(rules)
    return found
