// Goes on when single calls fail: a ToolError says which tool failed and why.
// toolgate run examples/cookbook/failures.ts --demo

const numbers = [1, 9999, 2];
const answers = await Promise.allSettled(numbers.map((number) => demo.get_issue({ number })));
const found: string[] = [];
const missing: string[] = [];
for (const answer of answers) {
  if (answer.status === "fulfilled") found.push(answer.value.title);
  else
    missing.push(`${answer.reason.name} of ${answer.reason.backend}.${answer.reason.tool}: ${answer.reason.message}`);
}
return { found: found.length, missing };
