/**
 * `npm run thorough` runs the same tests as `npm test` with full load, every variant and every crash point. It takes about three
 * times as long.
 */
export const thorough = process.env['BELLWETHER_THOROUGH'] === '1'
