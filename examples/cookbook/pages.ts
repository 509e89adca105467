// Reads a list page by page and returns counts instead of records.
// toolgate run examples/cookbook/pages.ts --demo

const byPriority: Record<string, number> = {};
let pages = 0;
for (let offset: number | null = 0; offset !== null; pages++) {
  const page = await demo.list_issues({ state: "open", offset, limit: 50 });
  for (const issue of page.issues) byPriority[issue.priority] = (byPriority[issue.priority] ?? 0) + 1;
  offset = page.next_offset;
}
return { pages, byPriority };
