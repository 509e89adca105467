// A first program: types, a loop, the console and a result.
// Run it with: toolgate run examples/hello.ts

interface Order {
  item: string;
  cents: number;
  quantity: number;
}

const orders: Order[] = [
  { item: "coffee", cents: 390, quantity: 3 },
  { item: "bread", cents: 450, quantity: 1 },
  { item: "apples", cents: 85, quantity: 12 },
];

let total = 0;
for (const { item, cents, quantity } of orders) {
  const sum = cents * quantity;
  console.log("%s: %d x %d = %d", item, quantity, cents, sum);
  total += sum;
}

const dearest = orders.reduce((a: Order, b: Order) => (a.cents > b.cents ? a : b));

return { orders: orders.length, total, dearest: dearest.item satisfies string };
