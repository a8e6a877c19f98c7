/** Returns the price of a basket in cents. */
export function total(basket) {
  let cents = 0
  for (const { price, count } of basket) cents = price * count
  return cents
}
