/** Comments on the lines of a diff, as the instruction of a follow-up. Pure. */
import type { LineComment } from '../../api/types.js'

export function commentsText(comments: readonly LineComment[]): string {
  const lines = comments.map(({ path, line, quote, text }) => {
    const place = line === null ? path : `${path}:${line}`
    return `- ${place}${quote === undefined || quote === '' ? '' : ` \`${quote.trim()}\``}: ${text}`
  })
  return ['Comments on your changes:', ...lines].join('\n')
}
