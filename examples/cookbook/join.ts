// Joins the answers of two calls by a field, sorts, and returns the first rows.
// toolgate run examples/cookbook/join.ts --demo

interface Issue {
  assignee: string | null;
  comments: number;
}

const [urgent, bugs] = await Promise.all([
  demo.list_issues({ state: "open", priority: "critical", limit: 100 }),
  demo.list_issues({ state: "open", label: "bug", limit: 100 }),
]);
const rows = new Map<string, { who: string; critical: number; bugs: number }>();
const row = ({ assignee }: Issue) => {
  const who = assignee ?? "nobody";
  if (!rows.has(who)) rows.set(who, { who, critical: 0, bugs: 0 });
  return rows.get(who)!;
};
for (const issue of urgent.issues) row(issue).critical++;
for (const issue of bugs.issues) row(issue).bugs++;
return [...rows.values()].sort((a, b) => b.critical - a.critical || a.who.localeCompare(b.who)).slice(0, 3);
