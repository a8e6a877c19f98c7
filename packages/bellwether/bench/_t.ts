import { Ledger, measure } from './measure.js'
import { ours } from './ours.js'
const ledger = new Ledger()
const c = await ours('postgres://postgres@127.0.0.1:15499/b', ledger)
console.log(
  process.argv[2],
  JSON.stringify(await measure(process.argv[2] as 'bulk', c, ledger, Number(process.argv[3]))),
)
await c.close()
