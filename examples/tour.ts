// A chain over a real MCP server: four tools, many calls, and only the answer comes back.
// toolgate run examples/tour.ts --demo

interface Issue {
  number: number;
  title: string;
  priority: string;
  assignee: string | null;
  comments: number;
}

// All pages of what is open and critical.
const critical: Issue[] = [];
for (let offset: number | null = 0; offset !== null;) {
  const page = await demo.list_issues({ state: "open", priority: "critical", offset, limit: 10 });
  critical.push(...page.issues);
  offset = page.next_offset;
}

// The whole text of the most discussed ones, all at once.
const hottest = critical.sort((a, b) => b.comments - a.comments).slice(0, 3);
const details = await Promise.all(hottest.map(({ number }) => demo.get_issue({ number })));

const now = await demo.current_time({});
const lines = details.map((issue) => `#${issue.number} ${issue.title} (${issue.assignee ?? "nobody"})`);
const note = await demo.create_note({ name: "hottest", text: lines.join("\n") });
console.log(`looked at ${critical.length} critical issues on ${now.iso.slice(0, 10)}`);

const unassigned = critical.filter((issue) => !issue.assignee).length;
return { critical: critical.length, unassigned, hottest: lines, note: note.uri };
