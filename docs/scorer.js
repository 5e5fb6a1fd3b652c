// Ranks the results of the search: pages before entries of the API, how-to pages first.
var Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("how-to/") ? 5 : 0),
  objNameMatch: 4,
  objPartialMatch: 2,
  objPrio: { 0: 0, 1: 0, 2: 0 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
