/* How high a page stands among what the search finds: who looks for a name wants its own page first. */
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score +
    (page.startsWith("reference/operators/") ? 6 : 0) +
    (page.startsWith("reference/api/") ? 3 : 0) -
    (["reference/changelog", "reference/benchmarks"].includes(page) ? 6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
