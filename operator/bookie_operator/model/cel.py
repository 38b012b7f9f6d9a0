"""A CEL rule of a CRD, and how the API server wants it (spec/operator.md#K16)."""

from dataclasses import dataclass

from pydantic.config import JsonDict


@dataclass(frozen=True, slots=True)
class CelRule:
    """One x-kubernetes-validations entry. `field` is relative to the place of the rule, as the API server wants it.

    `name` is not in the CRD: `checks.py` says by it which rule is broken. A rule that only CEL checks has none.
    `told`: CEL of a text that quotes what was found; `message` stands in where that has a line's end, or fails.
    """

    cel: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"
    name: str = ""
    told: str = ""

    def as_schema(self) -> JsonDict:
        out: JsonDict = {"rule": self.cel, "message": self.message, "reason": self.reason}
        if self.told:
            out["messageExpression"] = self.told
        if self.field:
            out["fieldPath"] = self.field
        return out


def schema(rules: tuple[CelRule, ...]) -> JsonDict:
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}
