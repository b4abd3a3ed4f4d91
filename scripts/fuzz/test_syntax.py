#!/usr/bin/env python3
"""Tests of the conditions in syntax.py. Needs no daemon."""

import base64
import unittest

import syntax

SNAPSHOT = "snap_" + "a1B2" * 4


def cursor_of(path):
    return base64.urlsafe_b64encode(path).rstrip(b"=").decode()


def export(header=b"h", chunks=(b"one", b""), count=None):
    """An exported snapshot whose hashes are not right."""
    parts = [b"SBXSNAP\0", (1).to_bytes(4, "little"), len(header).to_bytes(4, "little"), header]
    for chunk in chunks:
        parts += [b"\1", bytes(32), (9).to_bytes(4, "little"), len(chunk).to_bytes(4, "little"), chunk]
    count = len(chunks) if count is None else count
    return b"".join([*parts, b"\2", count.to_bytes(8, "little"), bytes(32)])


class Cursors(unittest.TestCase):
    def test_a_cursor_of_files_is_a_path(self):
        for path in [b"a", b"a/\xff\xfe", b"a" * 4095]:
            self.assertTrue(syntax.is_cursor_of_files(cursor_of(path)), path)
        for cursor in ["!", "AA", "Y", "YQ==", "YR", "+/+/", "é", cursor_of(b"a" * 4096)]:
            self.assertFalse(syntax.is_cursor_of_files(cursor), cursor)

    def test_a_cursor_of_snapshots_is_a_time_and_an_id(self):
        for time in ["0", "1700000000000", "+7", "0" * 5000 + "7", str(2**63 - 1)]:
            self.assertTrue(syntax.is_cursor_of_snapshots(f"{time}-{SNAPSHOT}"), time)
        for time in ["", "-7", "7 ", "٧", str(2**63)]:
            self.assertFalse(syntax.is_cursor_of_snapshots(f"{time}-{SNAPSHOT}"), time)
        for cursor in ["", "7", SNAPSHOT, f"7-{SNAPSHOT}\n", "7-snap_a"]:
            self.assertFalse(syntax.is_cursor_of_snapshots(cursor), cursor)

    def test_names_of_projects_and_ids_of_tokens(self):
        for name in ["a", "0", "a-b", "a" * 63]:
            self.assertTrue(syntax.is_name_of_project(name), name)
        for name in ["", "-a", "a-", "A", "a\n", "é", "a" * 64]:
            self.assertFalse(syntax.is_name_of_project(name), name)
        self.assertTrue(syntax.is_id_of_token("tok_" + "0" * 16))
        for token in ["", "tok_", "tok_" + "0" * 15, "tok_" + "0" * 16 + "\n", "sbt_" + "0" * 16]:
            self.assertFalse(syntax.is_id_of_token(token), token)


class Searches(unittest.TestCase):
    def test_a_text_is_a_query(self):
        for query in ["a", "[", "(", "\\", "é" * 2048]:
            self.assertFalse(syntax.may_be_no_query(query, False), query)
        for query in ["a\nb", "é" * 2049]:
            self.assertTrue(syntax.may_be_no_query(query, False), query)

    def test_a_valid_expression_is_a_query(self):
        for query in ["a.b", "a|b", "(a|b)*c?", r"\.\*\\", "[abc 1]+", "[^a]", "^a$", "a*?", "a*+", "()", "]}", "é"]:
            self.assertFalse(syntax.may_be_no_query(query, True), query)

    def test_an_invalid_expression_is_no_query(self):
        for query in ["(", ")", "[", "*", "a|*", "a\nb", "\\", r"\1", "(?=a)", "a{2", "[z-a]", "(" * 51 + ")" * 51]:
            self.assertTrue(syntax.may_be_no_query(query, True), query)

    def test_a_valid_glob_is_a_glob(self):
        for glob in ["*.rs", "**/a", "{a,b/*}", "{a,{b,c}}", "[a-z]", "[!a]", "[]]", "[^]]", "[-a]", "[a-]", "]", "\\{"]:
            self.assertFalse(syntax.may_be_no_globs([glob]), glob)

    def test_an_invalid_glob_is_no_glob(self):
        for glob in ["[", "[]", "[!]", "[z-a]", "[a-cb-a]", "{a", "a}", "}{", "a\\", "é" * 2049]:
            self.assertTrue(syntax.may_be_no_globs(["a", glob]), glob)
        self.assertTrue(syntax.may_be_no_globs(["a"] * 101))
        self.assertFalse(syntax.may_be_no_globs(["a"] * 100))


class Stages(unittest.TestCase):
    def test_a_pipeline_of_plain_words_has_stages(self):
        longest = "|".join(["a"] * 32)
        for script in ["a", "seq 9 | tail -1", " a\t|b c|d ", longest, "echo if | cat", "a; b && c\nd || e | f"]:
            self.assertFalse(syntax.may_have_no_stages({"script": script}), script)

    def test_other_scripts_may_have_none(self):
        for script in ["a | 'b", "a | b &", "a |", "a ||", "a; | b", "a &&& b", "a | then b", "time"]:
            self.assertTrue(syntax.may_have_no_stages({"script": script}), script)
        for script in ["|".join(["a"] * 33), "a" * 65537]:
            self.assertTrue(syntax.may_have_no_stages({"script": script}), script)
        for command in [{}, {"cmd": "a"}, {"script": "a", "debug": True}]:
            self.assertTrue(syntax.may_have_no_stages(command), command)


class Exports(unittest.TestCase):
    def test_a_complete_file_may_be_an_export(self):
        for content in [export(), export(chunks=()), export(header=b"")]:
            self.assertTrue(syntax.may_be_an_export(content), content)

    def test_what_is_not_complete_is_no_export(self):
        whole = export()
        for length in range(len(whole)):
            self.assertFalse(syntax.may_be_an_export(whole[:length]), length)
        newer = whole[:8] + b"\2" + whole[9:]
        for content in [whole + b"x", b"x" + whole, newer, export(count=3), export(header=b"h" * 65537), b"PK"]:
            self.assertFalse(syntax.may_be_an_export(content), content)


if __name__ == "__main__":
    unittest.main()
