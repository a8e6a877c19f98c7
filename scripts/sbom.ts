/** npm run -s sbom: prints the bill of materials of the published product. `npm pack` puts it into the package. */
import { billOfMaterials } from './dependencies.js'

process.stdout.write(`${JSON.stringify(billOfMaterials(), undefined, 2)}\n`)
