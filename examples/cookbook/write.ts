// Changes something, then reads it back: the report lists every call, and says that a second run would repeat an effect.
// toolgate run examples/cookbook/write.ts --demo --json

const { issues } = await demo.list_issues({ state: "open", priority: "critical", assignee: "edsger", limit: 2 });
for (const { number } of issues) await demo.update_issue({ number, assignee: "grace" });
await demo.create_note({ name: "handover", text: issues.map((issue) => `#${issue.number} ${issue.title}`).join("\n") });

const note = await demo.read_note({ name: "handover" });
const after = await Promise.all(issues.map(({ number }) => demo.get_issue({ number })));
return { lines: note.text.split("\n").length, owners: after.map((issue) => issue.assignee) };
