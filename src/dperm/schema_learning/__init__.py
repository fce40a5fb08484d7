"""Private learning of schemas, the implementation of `dperm.Schema.learn`."""

from dperm.schema_learning.learning import learn_schema
from dperm.schema_learning.result import LearnedReport
from dperm.statement.privacy_statement import PrivacyStatement

__all__ = ["LearnedReport", "PrivacyStatement", "learn_schema"]
