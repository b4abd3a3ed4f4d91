#!/usr/bin/env python3
"""Tests of the conditions that look only at the request. Needs no daemon."""

import os
import unittest

os.environ.update(SANDBOXD_URL="http://127.0.0.1:1", SANDBOXD_ADMIN_TOKEN="none")

import legal  # noqa: E402
import legal_files  # noqa: E402, F401 -- registers conditions
import legal_objects  # noqa: E402, F401 -- registers conditions
from exchange import Exchange  # noqa: E402


def is_legal(operation, status, field=None, body=None, **query):
    answer = {"details": {"field": field}} if field else {}
    return legal.is_legal(Exchange(operation, {}, query, {}, body, status, answer))


class Requests(unittest.TestCase):
    def test_a_condition_is_rejected_only_with_hidden_secrets(self):
        self.assertTrue(is_legal("getFile", 400, "if-match", path="a", hideSecrets="true"))
        self.assertFalse(is_legal("getFile", 400, "if-match", path="a", hideSecrets="false"))
        self.assertFalse(is_legal("getFile", 400, "path", path="a", hideSecrets="true"))

    def test_an_invalid_cursor_is_rejected(self):
        for operation, valid in [
            ("listFiles", "YQ"),
            ("listSnapshots", "7-snap_a1B2a1B2a1B2a1B2"),
            ("listAllSnapshots", "7-snap_a1B2a1B2a1B2a1B2"),
            ("compareSnapshots", "YQ"),
        ]:
            self.assertTrue(is_legal(operation, 400, "cursor", cursor="!"), operation)
            self.assertFalse(is_legal(operation, 400, "cursor", cursor=valid), operation)
            self.assertFalse(is_legal(operation, 400, "cursor"), operation)
        self.assertFalse(is_legal("listFiles", 400, "cursor", cursor=""))

    def test_an_invalid_search_is_rejected(self):
        self.assertTrue(is_legal("grepFiles", 400, "query", {"query": "(", "regex": True}))
        self.assertFalse(is_legal("grepFiles", 400, "query", {"query": "(a)", "regex": True}))
        self.assertFalse(is_legal("grepFiles", 400, "query", {"query": "("}))
        self.assertFalse(is_legal("grepFiles", 400, "path", {"query": "(", "regex": True}))

    def test_an_invalid_glob_is_rejected(self):
        self.assertTrue(is_legal("grepFiles", 400, "include", {"query": "a", "include": ["a", "["]}))
        self.assertTrue(is_legal("globFiles", 400, "pattern", {"pattern": "{"}))
        self.assertTrue(is_legal("globFiles", 400, "exclude", {"pattern": "a", "exclude": "}"}))
        self.assertFalse(is_legal("globFiles", 400, "pattern", {"pattern": "[a]", "exclude": "["}))
        self.assertFalse(is_legal("globFiles", 400, "exclude", {"pattern": "[", "exclude": None}))
        self.assertFalse(is_legal("grepFiles", 400, "include", {"query": "a", "include": "{a,b}"}))

    def test_only_a_pipeline_is_captured(self):
        for operation in ["startCommand", "runCommand"]:
            self.assertTrue(is_legal(operation, 400, "capture", {"script": "a |", "capture": "stages"}))
            self.assertFalse(is_legal(operation, 400, "capture", {"script": "a | b", "capture": "stages"}))
            self.assertFalse(is_legal(operation, 400, "capture", {"script": "a |"}))
            self.assertFalse(is_legal(operation, 400, "script", {"script": "a |", "capture": "stages"}))

    def test_no_command_of_a_batch_is_captured(self):
        batch = {"commands": [{"script": "a"}, {"script": "a", "capture": "stages"}]}
        self.assertTrue(is_legal("runBatch", 400, "commands[1].capture", batch))
        self.assertFalse(is_legal("runBatch", 400, "commands[0].capture", batch))

    def test_a_token_for_one_sandbox_does_not_manage(self):
        body = {"scopes": ["read", "manage"], "sandboxId": "sbx_a1B2a1B2a1B2a1B2"}
        self.assertTrue(is_legal("createChildToken", 400, "scopes", body))
        self.assertFalse(is_legal("createChildToken", 400, "subject", body))
        self.assertFalse(is_legal("createChildToken", 400, "scopes", body | {"sandboxId": None}))
        self.assertFalse(is_legal("createChildToken", 400, "scopes", body | {"scopes": ["read"]}))

    def test_only_what_the_daemon_runs_is_guaranteed(self):
        field = "quotas.guaranteedRunning"
        self.assertTrue(is_legal("changeProject", 400, field, {"quotas": {"guaranteedRunning": 9}}))
        self.assertFalse(is_legal("changeProject", 400, field, {"quotas": {"guaranteedRunning": 8}}))
        self.assertFalse(is_legal("changeProject", 400, field, {"quotas": None}))

    def test_only_an_export_is_imported(self):
        self.assertTrue(is_legal("importSnapshot", 422, body=b"random"))
        empty = b"SBXSNAP\0" + bytes([1, 0, 0, 0]) + bytes(4) + b"\2" + bytes(8) + bytes(32)
        self.assertFalse(is_legal("importSnapshot", 422, body=empty))


if __name__ == "__main__":
    unittest.main()
