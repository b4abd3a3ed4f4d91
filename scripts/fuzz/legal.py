"""The errors that a valid request may get, each with the condition on the request that makes it legal.

No schema can express these conditions. They are checked against other routes of the daemon, a program in the sandbox
and earlier responses. Any other error in response to a valid request is a failure. So is a server error in response to
any request. The conditions are in legal_objects.py and legal_files.py.
"""

from exchange import Exchange

ALL = "all operations"

rules = {}


def legal(status, *operations):
    """Registers the condition under which these operations, or all of them, may return the status."""

    def register(condition):
        for operation in operations or [ALL]:
            rules.setdefault((operation, status), []).append(condition)
        return condition

    return register


def is_legal(exchange):
    if exchange.status < 300:
        return True
    conditions = [*rules.get((exchange.operation, exchange.status), []), *rules.get((ALL, exchange.status), [])]
    return any(condition(exchange) for condition in conditions)


def illegal_results(exchange):
    """Returns the commands of a batch that did not start although they had to."""
    if exchange.operation != "runBatch" or exchange.status != 200:
        return []
    statuses = {"refused": 422, "already_exists": 409}
    results = zip(exchange.body["commands"], exchange.answer["results"], strict=False)
    starts = [
        Exchange("startCommand", exchange.path, {}, {}, request, statuses.get(result["code"], 500), result)
        for request, result in results
        if "code" in result
    ]
    return [start for start in starts if not is_legal(start)]
