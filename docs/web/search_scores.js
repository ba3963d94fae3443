/* Pages of operators and of functions come first, pages of history and figures last. */
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (page.startsWith("reference/operators/")) {
      result[2] = ""; // the anchor of an index entry: without it, one page is one result
      return score + 6;
    }
    if (page.startsWith("reference/api/")) return score + 3;
    if (["reference/changelog", "reference/history", "reference/benchmarks"].includes(page)) return score - 6;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
