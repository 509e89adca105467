// Makes independent calls at once: Promise.all starts them together, and at most 64 are under way.
// toolgate run examples/cookbook/parallel.ts --demo

const { issues } = await demo.search_issues({ query: "search slow", state: "open", limit: 5 });
const details = await Promise.all(issues.map(({ number }: { number: number }) => demo.get_issue({ number })));
return details.map((issue) => ({ number: issue.number, words: issue.body.split(/\s+/).length }));
