import { expect, test } from "vitest";
import { bare, shown } from "./python";

test("only the texts and the tags of tables are parsed", () => {
  const html = `<style scoped>.dataframe tbody { color: red }</style><TABLE border="1" onclick="x()"><tr style="a"><td>1 < 2 &amp; 3</td></tr></TABLE><script>alert("<td>")</script><!-- note --><b>end</b>`;
  expect(bare(html)).toBe("<table><tr><td>1 &lt; 2 &amp; 3</td></tr></table>end");
  expect(bare("a <script>never closed")).toBe("a ");
  expect(bare("a <td never closed")).toBe("a ");
  expect(shown({ html })).toEqual({ kind: "table", table: { head: [], rows: [["1 < 2 & 3"]], omittedRows: 0 } });
  expect(shown({ html: "<p>one</p> &lt;two&gt;" })).toEqual({ kind: "text", text: "one <two>" });
});

test("a megabyte of open tags is parsed at once", () => {
  const began = performance.now();
  for (const piece of ["<a \"", "<script", "<style>", "<", "<td>", "<!--"]) bare(piece.repeat(1_048_576 / piece.length));
  expect(performance.now() - began).toBeLessThan(2_000);
});
