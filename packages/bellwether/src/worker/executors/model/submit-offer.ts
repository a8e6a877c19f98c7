/** What a model is told of `submit_result`, the built-in call that ends a turn (T4.4). */
import type { OfferedTool } from '../../../ports/model/model.js'
import { submitResultName } from '../../submit-result.js'

export const submitOffer: OfferedTool = {
  name: submitResultName,
  description:
    'Ends your work with its result. Call it alone, once, when everything is done: with text, or with fields.',
  parameters: {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'The result in words, where no fields were asked for.' },
      fields: {
        type: 'array',
        description: 'The fields that were asked for, each with its value.',
        items: {
          type: 'object',
          properties: { name: { type: 'string' }, value: { description: 'Of the type that the field asks for.' } },
          required: ['name', 'value'],
        },
      },
    },
  },
}
